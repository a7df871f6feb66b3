/**
 * What the vendors' backends share: our agent over a channel of theirs, a fleet's sessions, what a lost open
 * left.
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
