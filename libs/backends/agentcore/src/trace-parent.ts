/** The span of an execution, for the service's own ones. */
import { parseTraceparent, type SandboxSpec } from '@cofferdam/contract'

/** As the program has it; undefined where nothing traces. It goes into a header: nothing but the form that is known. */
export function traceParentOf({ env }: Pick<SandboxSpec, 'env'>): string | undefined {
  const { TRACEPARENT: given } = env
  return parseTraceparent(given) === null ? undefined : given
}
