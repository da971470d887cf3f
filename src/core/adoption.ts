// The annotation by which an agent takes over what is not of this store: a container of a lost one, or the workspace of a stranger's.

/** STORE/UID as a container's labels say them, or the name of a container that carries no labels of ours. */
export const ADOPT = "beige.dev/adopt";

export type Adoption =
  /** Made by a gateway on this home whose store is lost: the container goes on, under the uid that names its folders. */
  | { readonly kind: "lost"; readonly store: string; readonly uid: string }
  /** Somebody else's: its workspace is taken over once its owner has stopped it. */
  | { readonly kind: "foreign"; readonly container: string };

const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
const LOST = new RegExp(`^(${UUID})/(${UUID})$`);
const CONTAINER = /^[a-zA-Z0-9][\w.-]{0,127}$/;

type Annotated = { readonly annotations?: Readonly<Record<string, string>> };

/** Undefined where nothing is to be taken over, or where the text is none of the two. */
export function adoptionOf({ annotations }: Annotated): Adoption | undefined {
  const text = annotations?.[ADOPT];
  if (text === undefined) return undefined;
  const lost = LOST.exec(text);
  if (lost !== null) return { kind: "lost", store: lost[1] ?? "", uid: lost[2] ?? "" };
  return CONTAINER.test(text) ? { kind: "foreign", container: text } : undefined;
}

export const adoptText = (store: string, uid: string): string => `${store}/${uid}`;
