/**
 * Shared by the vendors' backends: our agent over their channels, a fleet's sessions, leftovers of lost
 * opens.
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
