/** Settings of the control plane and IAM. By default both behave like the services, without delays. */

export type ControlOperation =
  | 'CreateCodeInterpreter'
  | 'GetCodeInterpreter'
  | 'ListCodeInterpreters'
  | 'DeleteCodeInterpreter'
  | 'CreateRole'
  | 'GetRole'
  | 'PutRolePolicy'
  | 'DeleteRolePolicy'
  | 'DeleteRole'

/** A fault of the control plane. Each call that it affects uses up one of its `times`. */
export interface ControlFault {
  operation: ControlOperation
  /** Number of calls that it affects. Default: 1. */
  times?: number
  /** Class of the refusal. Without it, the connection breaks after the call took effect. */
  error?: string
}

export interface Knobs {
  /** Maximum number of interpreters in the account. */
  quota: number
  /** Accepted creations per second, and accepted deletions per second. The service accepts 5 of each. */
  changesPerSecond: number
  /** Time for which Get and List do not show a new interpreter. */
  visibleAfterMs: number
  /** Time that an interpreter stays CREATING, and DELETING. */
  readyAfterMs: number
  deletedAfterMs: number
  /** Time for which AgentCore does not know a role that IAM has created. */
  roleVisibleAfterMs: number
  /** Maximum entries per page of a list, whatever the caller asks for. */
  pageMax: number
  /** Number of the next creations that end as CREATE_FAILED. */
  failCreations: number
}

export const SERVICE_LIKE: Knobs = {
  quota: 1000,
  changesPerSecond: 5,
  visibleAfterMs: 0,
  readyAfterMs: 0,
  deletedAfterMs: 0,
  roleVisibleAfterMs: 0,
  pageMax: 100,
  failCreations: 0,
}
