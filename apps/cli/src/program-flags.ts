/** The flags of `run`, `test`, `enqueue` and `routines` that describe an execution. */
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
    description: 'ask it to stop after 500ms, 30s, 2m (default: 25s); kill it 5 s later',
  },
  memory: { type: 'string', short: 'm', value: 'MIB', description: 'memory limit in MiB (default: 256)' },
  cpus: { type: 'string', value: 'N', description: 'CPU limit (default: 1)' },
  heartbeat: {
    type: 'string',
    value: 'TIME',
    description: 'stop it when it reports no progress for this long (cofferdam.progress)',
  },
  'cpu-time': { type: 'string', value: 'TIME', description: 'kill it after this much CPU time, e.g. 10s' },
  session: {
    type: 'string',
    short: 's',
    value: 'KEY',
    description: 'share a sandbox with the other executions of this session',
  },
  'session-scope': {
    type: 'string',
    value: 'WHAT',
    description: 'what the session keeps: files (default), interpreter (a REPL), processes (all), none',
  },
  'session-must-exist': {
    type: 'boolean',
    description: 'fail if the session does not exist or has lost its state',
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
    description: 'file that the program reads on stdin; - for this terminal or pipe',
  },
  file: {
    type: 'string',
    short: 'f',
    multiple: true,
    value: 'PATH[=AS]',
    description: 'copy this file into the sandbox',
  },
  env: {
    type: 'string',
    short: 'e',
    multiple: true,
    value: 'NAME=VALUE',
    description: 'environment variable',
  },
  artifact: {
    type: 'string',
    short: 'a',
    multiple: true,
    value: 'GLOB',
    description: 'collect these files afterwards',
  },
} as const satisfies Record<string, Flag>

/** Flags of the commands that wait for the result. */
export const RUN_FLAGS = {
  save: { type: 'string', value: 'DIR', description: 'write the artifacts into this directory' },
  local: {
    type: 'boolean',
    description: 'skip the queue: run it from this process, without caps and audit',
  },
} as const satisfies Record<string, Flag>

/** Flags that apply to the queue only. */
export const QUEUE_FLAGS = {
  'idempotency-key': {
    type: 'string',
    value: 'KEY',
    description: 'the same key and body give the same execution',
  },
  lane: { type: 'string', value: 'NAME', description: 'interactive (default) or routine' },
  priority: { type: 'string', value: '0-9', description: '9 is first (default: 5)' },
  'callback-url': { type: 'string', value: 'URL', description: 'the result is posted to this URL' },
  delay: { type: 'string', value: 'TIME', description: 'start it after this time at the earliest' },
} as const satisfies Record<string, Flag>
