/**
 * Shared by vendors' backends: channels to our agent, sessions of the fleet, and ends that are not confirmed.
 */
export * from './aborted-after.ts'
export * from './forgotten-sessions.ts'
export * from './http-answer.ts'
export * from './left-behind.ts'
export * from './multipart.ts'
export * from './own-slot.ts'
export * from './remote-slot.ts'
export * from './require-node.ts'
export * from './session-entry.ts'
export * from './session-keeper.ts'
export * from './take-turn.ts'
