/** How the control plane and IAM behave: as the services by default, but at once. */

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

/** One call that goes wrong; used up by it. */
export interface ControlFault {
  operation: ControlOperation
  /** How many calls it befalls. Default: 1. */
  times?: number
  /** Class of the refusal, such as ThrottlingException; left out: the connection breaks after the call took effect. */
  error?: string
}

export interface Knobs {
  /** Interpreters of the account. */
  quota: number
  /** Creations and deletions that are let through in a second, each. The service's: 5. */
  changesPerSecond: number
  /** How long Get and List do not know what was made. */
  visibleAfterMs: number
  /** How long an interpreter is CREATING, and DELETING. */
  readyAfterMs: number
  deletedAfterMs: number
  /** How long the service does not know a role that IAM made. */
  roleVisibleAfterMs: number
  /** Entries of a page of the list, whatever is asked for. */
  pageMax: number
  /** Creations that end as CREATE_FAILED. */
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
