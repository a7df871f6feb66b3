/** The flags of `run` and `enqueue` that describe an execution, in one place for both. */
import type { Flag } from './command.ts'

export const PROGRAM_FLAGS = {
  language: {
    type: 'string',
    short: 'l',
    value: 'NAME',
    description: 'python, javascript, typescript or bash (default: from the file name)',
  },
  tenant: { type: 'string', value: 'ID', description: 'tenant that runs it (default: demo)' },
  agent: { type: 'string', value: 'ID', description: 'agent that runs it (default: cli)' },
  backend: {
    type: 'string',
    value: 'NAME',
    description: 'backend to use (default: auto, the strongest here)',
  },
  'min-isolation': { type: 'string', value: 'LEVEL', description: 'refuse anything weaker, e.g. container' },
  timeout: {
    type: 'string',
    short: 't',
    value: 'TIME',
    description: 'asked to stop after 500ms, 30s, 2m (default: 25s), killed 5 s later',
  },
  memory: { type: 'string', short: 'm', value: 'MIB', description: 'memory limit in MiB (default: 256)' },
  cpus: { type: 'string', value: 'N', description: 'CPU limit (default: 1)' },
  heartbeat: {
    type: 'string',
    value: 'TIME',
    description: 'stopped when it reports no progress for so long (cofferdam.progress)',
  },
  'cpu-time': { type: 'string', value: 'TIME', description: 'killed after this much CPU time, e.g. 10s' },
  session: {
    type: 'string',
    short: 's',
    value: 'KEY',
    description: 'share a sandbox with this session’s other executions',
  },
  'session-scope': {
    type: 'string',
    value: 'WHAT',
    description: 'what the session keeps: files (default), interpreter (a REPL), none',
  },
  'session-must-exist': {
    type: 'boolean',
    description: 'refuse to begin the session, or to begin it anew',
  },
  preload: {
    type: 'string',
    value: 'SET',
    description: 'preload set of the worker, e.g. data (numpy, pandas)',
  },
  network: { type: 'string', value: 'WHAT', description: 'none (default), public, or host[:port],host…' },
  stdin: {
    type: 'string',
    value: 'FILE',
    description: 'what the program reads; - for this terminal or pipe',
  },
  file: { type: 'string', short: 'f', multiple: true, value: 'PATH[=AS]', description: 'file that goes in' },
  env: {
    type: 'string',
    short: 'e',
    multiple: true,
    value: 'NAME=VALUE',
    description: 'environment variable',
  },
  artifact: { type: 'string', short: 'a', multiple: true, value: 'GLOB', description: 'files that come out' },
} as const satisfies Record<string, Flag>

/** Flags that only mean something in the queue. */
export const QUEUE_FLAGS = {
  'idempotency-key': { type: 'string', value: 'KEY', description: 'same key and body: the same execution' },
  lane: { type: 'string', value: 'NAME', description: 'interactive (default) or routine' },
  priority: { type: 'string', value: '0-9', description: '0 is first (default: 5)' },
  'callback-url': { type: 'string', value: 'URL', description: 'where the result is posted to' },
  delay: { type: 'string', value: 'TIME', description: 'not before this time from now' },
} as const satisfies Record<string, Flag>
