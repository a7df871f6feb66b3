/** Capabilities of an AgentCore session. */
import type { Capabilities } from '@cofferdam/contract'
import type { AgentcoreConfig } from './config.ts'
import { LIFE_MARGIN_MS, LIFE_MS } from './session-life.ts'

/** `keepsTurns`: the worker provides a registry of sessions. */
export function capabilitiesOf(settings: AgentcoreConfig, keepsTurns: boolean): Capabilities {
  return {
    languages: settings.languages,
    programs: ['script', 'command'],
    // A session has its own network and bypasses the worker's proxy, so no allowlist can be enforced.
    network: ['none', 'public'],
    stdin: true,
    files: true,
    artifacts: true,
    // Output is live if the service passes it on early. For background programs, the worker polls.
    streaming: true,
    // A session keeps the whole state of its machine, and nothing can prove that it is clean. So only the
    // scope that shares all of it is offered.
    sessions: keepsTurns ? ['interpreter'] : [],
    preloads: [],
    value: settings.languages.includes('python'),
    interrupt: false,
    remote: true,
    maxMs: LIFE_MS.most - LIFE_MARGIN_MS,
    enforces: [],
    measures: ['wall_ms'],
  }
}
