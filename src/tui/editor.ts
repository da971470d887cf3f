// The line in which a person types: words of the SDK that would act on this machine or its network are answered here instead.
import { CustomEditor, type ExtensionUIContext } from "@mariozechner/pi-coding-agent";

type Factory = NonNullable<Parameters<ExtensionUIContext["setEditorComponent"]>[0]>;
type Provider = Parameters<Parameters<ExtensionUIContext["addAutocompleteProvider"]>[0]>[0];

/** Why a word does nothing here. */
const CLOSED: Readonly<Record<string, string>> = {
  "/login": "keys are the gateway's: beige secret set NAME",
  "/logout": "keys are the gateway's: beige secret list",
  "/share": "conversations stay with the gateway: beige session export AGENT KEY",
  "/bug": "conversations stay with the gateway; beige bugreport collects what a report of beige needs",
  "/import": "conversations stay with the gateway: /sessions shows them",
  "/export": "beige session export AGENT KEY",
  "/trust": "nothing of this folder is read",
  "/reload": "nothing of this folder is read; a changed agent is taken over at /new",
  "/scoped-models": "the agent's list is the scope: spec.fallbacks",
  "/changelog": "beige version",
  "/debug": "beige audit tail",
};

/** Other words for what this terminal does itself. */
const OTHER: Readonly<Record<string, string>> = { "/resume": "/sessions", "/v": "/verbose" };

const first = (text: string): string => /^\S*/.exec(text.trim())?.[0] ?? "";

export interface Typed {
  /** What the SDK gets; undefined: nothing. */
  readonly text?: string;
  readonly why?: string;
}

export function typed(text: string): Typed {
  const word = first(text);
  const why = Object.hasOwn(CLOSED, word) ? CLOSED[word] : undefined;
  if (why !== undefined) return { why: `${word} is not here: ${why}` };
  const other = Object.hasOwn(OTHER, word) ? OTHER[word] : undefined;
  return { text: other === undefined ? text : `${other}${text.trim().slice(word.length)}` };
}

/** The SDK sets and takes `onSubmit` as it likes; what stands between sees every line. */
export const editorOf =
  (refuse: (why: string) => void): Factory =>
  (tui, theme, keybindings) => {
    const editor = new CustomEditor(tui, theme, keybindings, { embedWorkingStatus: true });
    let inner: ((text: string) => void) | undefined;
    const submit = (text: string): void => {
      const taken = typed(text);
      if (taken.text !== undefined) return inner?.(taken.text);
      editor.setText("");
      refuse(taken.why ?? "");
    };
    Object.defineProperty(editor, "onSubmit", {
      configurable: true,
      get: () => submit,
      set(given: typeof inner) {
        inner = given;
      },
    });
    return editor;
  };

/** Does not offer what is closed. */
export const offersOf = (current: Provider): Provider => ({
  ...(current.triggerCharacters !== undefined && { triggerCharacters: current.triggerCharacters }),
  async getSuggestions(lines, line, column, options) {
    const found = await current.getSuggestions(lines, line, column, options);
    if (found === null) return null;
    const items = found.items.filter(({ value }) => !Object.hasOwn(CLOSED, `/${value.replace(/^\//, "")}`));
    return items.length === 0 ? null : { ...found, items };
  },
  applyCompletion: (...given) => current.applyCompletion(...given),
  ...(current.shouldTriggerFileCompletion && {
    shouldTriggerFileCompletion: (...given: Parameters<NonNullable<Provider["shouldTriggerFileCompletion"]>>) =>
      current.shouldTriggerFileCompletion?.(...given) ?? false,
  }),
});
