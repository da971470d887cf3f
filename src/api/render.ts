// Objects as they stand on the wire.
import type { KindInfo } from "../core/control.ts";
import { API_VERSION, type Resource } from "../core/resource.ts";

/** Kubernetes leaves out what is empty. */
export function onWire(object: Resource): object {
  const { namespace, managedFields, labels, annotations, finalizers, resourceVersion, ...meta } = object.metadata;
  return {
    apiVersion: object.apiVersion,
    kind: object.kind,
    metadata: {
      ...meta,
      ...(namespace !== "" && { namespace }),
      // A dry run's new object has no version yet.
      ...(resourceVersion !== "0" && { resourceVersion }),
      ...(labels !== undefined && Object.keys(labels).length > 0 && { labels }),
      ...(annotations !== undefined && Object.keys(annotations).length > 0 && { annotations }),
      ...(finalizers !== undefined && finalizers.length > 0 && { finalizers }),
      ...(managedFields !== undefined && managedFields.length > 0 && { managedFields }),
    },
    spec: object.spec,
    ...(object.status !== undefined && { status: object.status }),
  };
}

export const listOnWire = (info: KindInfo, items: readonly Resource[], resourceVersion: string): object => ({
  apiVersion: API_VERSION,
  kind: `${info.kind}List`,
  metadata: { resourceVersion },
  items: items.map(onWire),
});
