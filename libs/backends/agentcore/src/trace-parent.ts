/** The span of an execution, as parent of the service's own spans. */
import { parseTraceparent, type SandboxSpec } from '@cofferdam/contract'

/** From the program's environment; undefined without tracing. Only the known form goes into a header. */
export function traceParentOf({ env }: Pick<SandboxSpec, 'env'>): string | undefined {
  const { TRACEPARENT: given } = env
  return parseTraceparent(given) === null ? undefined : given
}
