/** Shared by tests of the vendors' backends. */
export * from './redis-sessions.ts'
export * from './remote-run.ts'
export * from './replay.ts'
