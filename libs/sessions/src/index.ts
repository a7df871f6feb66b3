/** The registry of sessions: where each session's sandbox is, and which worker may use it now. */
export { createSessionRegistry, type Sessions, type SessionsDeps } from './create-session-registry.ts'
