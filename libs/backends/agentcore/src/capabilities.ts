/** What a session of AgentCore can do. */
import type { Capabilities } from '@cofferdam/contract'
import type { AgentcoreConfig } from './config.ts'
import { LIFE_MARGIN_MS, LIFE_MS } from './session-life.ts'

/** `keepsTurns`: the worker lends a registry of sessions. */
export function capabilitiesOf(settings: AgentcoreConfig, keepsTurns: boolean): Capabilities {
  return {
    languages: settings.languages,
    programs: ['script', 'command'],
    // Its own network, past the worker's proxy: no list of hosts can be kept there.
    network: ['none', 'public'],
    stdin: true,
    files: true,
    artifacts: true,
    // As the service passes it on; what runs in the background is asked for it.
    streaming: true,
    // A session keeps all that its machine has; nothing in it could be proven clean.
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
