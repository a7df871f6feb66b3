/** The registry of sessions: where each one's sandbox is and who may use it now. */
export { createSessionRegistry, type Sessions, type SessionsDeps } from './create-session-registry.ts'
