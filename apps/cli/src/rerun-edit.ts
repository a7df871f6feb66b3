/** The edits that the flags of `cofferdam rerun` name. */
import { isCofferdamError, parse, rerunEditSchema, type RerunEdit } from '@cofferdam/contract'
import { jsonOf } from './api-connection.ts'
import { copyOf, environmentOf, languageOf, networkOf, readFileIn, readInput } from './build-request.ts'
import type { CommandLine, Context, Flag } from './command.ts'
import { durationFlag, numberFlag, textFlag, textFlags, withoutUndefined } from './parse-command-line.ts'
import { PROGRAM_FLAGS } from './program-flags.ts'
import { UsageError } from './usage-error.ts'

const { language, backend, timeout, memory, cpus, network, stdin, file, env, artifact } = PROGRAM_FLAGS

export const EDIT_FLAGS = {
  program: { type: 'string', short: 'p', value: 'FILE', description: 'run this script instead' },
  language,
  backend: { ...backend, description: 'backend to use, or auto' },
  'min-isolation': PROGRAM_FLAGS['min-isolation'],
  timeout: { ...timeout, description: 'ask it to stop after 500ms, 30s, 2m; kill it 5 s later' },
  memory: { ...memory, description: 'memory limit in MiB' },
  cpus: { ...cpus, description: 'CPU limit' },
  'cpu-time': PROGRAM_FLAGS['cpu-time'],
  network: { ...network, description: 'none, public, or host[:port],host…' },
  session: { ...PROGRAM_FLAGS.session, value: 'KEY|off', description: 'run in this session, or in none' },
  stdin: { ...stdin, value: 'FILE', description: 'file that the program reads on stdin' },
  file: { ...file, description: 'copy this file into the sandbox, instead of the files of the first run' },
  env: { ...env, description: 'environment variable, besides the others' },
  'unset-env': { type: 'string', multiple: true, value: 'NAME', description: 'without this variable' },
  artifact,
  edit: {
    type: 'string',
    value: 'JSON',
    description: 'any edit of the API, e.g. \'{"limits":{"pids":256}}\'; flags win',
  },
} as const satisfies Record<string, Flag>

/** Throws `UsageError`, and for a wrong value `invalid_request`. */
export async function editOf(line: CommandLine, { cwd }: Pick<Context, 'cwd'>): Promise<RerunEdit> {
  const given = givenEdit(line)
  const files = await Promise.all(textFlags(line, 'file').map((word) => readFileIn(cwd, copyOf(word))))
  const input = textFlag(line, 'stdin')
  const session = textFlag(line, 'session')
  const env = {
    ...given.env,
    ...environmentOf(textFlags(line, 'env')),
    ...Object.fromEntries(textFlags(line, 'unset-env').map((name) => [name, null])),
  }
  const limits = {
    ...given.limits,
    ...withoutUndefined({
      soft_timeout_ms: durationFlag(line, 'timeout'),
      cpu_time_ms: durationFlag(line, 'cpu-time'),
      memory_mib: numberFlag(line, 'memory', { min: 1, max: 1_000_000 }),
      cpus: numberFlag(line, 'cpus', { min: 0, max: 1024, whole: false }),
    }),
  }
  const named = withoutUndefined({
    program: await programOf(line, cwd),
    args: line.rest.length === 0 ? undefined : line.rest,
    backend: textFlag(line, 'backend'),
    min_isolation: textFlag(line, 'min-isolation'),
    network: textFlag(line, 'network') === undefined ? undefined : networkOf(textFlag(line, 'network')),
    session: session === undefined ? undefined : session === 'off' ? null : { key: session },
    stdin: input === undefined ? undefined : (await readInput(cwd, input)).toString(),
    files: files.length === 0 ? undefined : files,
    artifacts: textFlags(line, 'artifact').length === 0 ? undefined : textFlags(line, 'artifact'),
    env: Object.keys(env).length === 0 ? undefined : env,
    limits: Object.keys(limits).length === 0 ? undefined : limits,
  })
  return parse(rerunEditSchema, { ...given, ...named }, 'the edit')
}

function givenEdit(line: CommandLine): RerunEdit {
  const text = textFlag(line, 'edit')
  if (text === undefined) return {}
  try {
    return parse(rerunEditSchema, jsonOf(text), '--edit')
  } catch (error) {
    throw isCofferdamError(error) ? new UsageError(error.message) : error
  }
}

async function programOf(line: CommandLine, cwd: string): Promise<object | undefined> {
  const name = textFlag(line, 'program')
  if (name === undefined) {
    if (textFlag(line, 'language') !== undefined) throw new UsageError('--language needs --program FILE.')
    return undefined
  }
  const source = (await readInput(cwd, name)).toString()
  return { type: 'script', language: languageOf(name, source, textFlag(line, 'language')), source }
}
