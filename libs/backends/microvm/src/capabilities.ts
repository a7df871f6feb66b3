import { LANGUAGES, type Capabilities } from '@cofferdam/contract'

/** What a virtual machine with our agent can do. `preloads`: the sets that its interpreters can import. */
export function capabilitiesOf(preloads: readonly string[]): Capabilities {
  return {
    languages: LANGUAGES,
    programs: ['script', 'command'],
    // Never a network interface: the agent's channel carries programs' connections.
    network: ['none', 'public', 'allow'],
    stdin: true,
    files: true,
    artifacts: true,
    streaming: true,
    sessions: ['none', 'files', 'interpreter'],
    preloads,
    value: true,
    progress: true,
    interrupt: true,
    maxMs: null,
    enforces: ['memory', 'cpus', 'pids', 'disk'],
    measures: ['cpu_ms', 'peak_memory_bytes', 'read_bytes', 'write_bytes', 'disk_bytes', 'wall_ms'],
  }
}
