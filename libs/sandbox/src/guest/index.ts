/** The guest agent's host side: frame protocol, session over any byte stream, and the agent's files. */
export { agentArgv, agentOptions, languageOf, type AgentOptions } from './agent-argv.ts'
export { type Kept } from './collect.ts'
export { parseReady, type GuestReady } from './evidence.ts'
export {
  COMPILER,
  guestBundle,
  guestDigest,
  guestFiles,
  installGuest,
  unpackArgv,
  type GuestFile,
} from './guest-files.ts'
export { proxyEnv } from './job.ts'
export { createFrameDecoder, encodeFrame, PROTOCOL_VERSION, TO_AGENT_MAX, TO_HOST_MAX } from './protocol.ts'
export { PROXY_PORT } from './tunnel.ts'
export { type GuestSession, type GuestSessionOptions } from './guest-session.ts'
export { createGuestSession } from './session.ts'
export { sharedStart, type SharedStart } from './shared-start.ts'
