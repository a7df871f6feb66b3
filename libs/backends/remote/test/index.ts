/** What tests of the vendors' backends share. */
export * from './redis-sessions.ts'
export * from './remote-run.ts'
export * from './replay.ts'
