/** Builds an execution request from a command line. The contract's schema then checks it. */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { nearestName } from '@cofferdam/config'
import {
  BOUNDS,
  executionRequestSchema,
  LANGUAGES,
  parse,
  type ExecutionRequest,
  type FileIn,
  type Language,
  type Network,
} from '@cofferdam/contract'
import { systemCode, type CommandLine } from './command.ts'
import {
  durationFlag,
  hasFlag,
  numberFlag,
  textFlag,
  textFlags,
  listOf,
  withoutUndefined,
} from './parse-command-line.ts'
import { UsageError } from './usage-error.ts'

const EXTENSIONS: Record<string, Language> = {
  '.py': 'python',
  '.js': 'javascript',
  '.mjs': 'javascript',
  '.cjs': 'javascript',
  '.ts': 'typescript',
  '.mts': 'typescript',
  '.sh': 'bash',
  '.bash': 'bash',
}

/** Languages of `#!` lines, by the file name of the interpreter. */
const INTERPRETERS: Record<string, Language> = {
  python: 'python',
  python3: 'python',
  node: 'javascript',
  bash: 'bash',
  sh: 'bash',
}

/** The language from the flag, the file name or the `#!` line. Throws `UsageError` if none tells it. */
export function languageOf(file: string, source: string, named: string | undefined): Language {
  if (named !== undefined) {
    const found = LANGUAGES.find((language) => language === named)
    if (found !== undefined) return found
    const nearest = nearestName(named, LANGUAGES)
    throw new UsageError(
      `There is no language ${JSON.stringify(named)}; known: ${LANGUAGES.join(', ')}.${nearest === null ? '' : ` Did you mean ${nearest}?`}`,
    )
  }
  const byName = EXTENSIONS[path.extname(file).toLowerCase()]
  if (byName !== undefined) return byName
  const interpreter = /^#!\s*\S*?(?:\/env\s+(?:-S\s+)?)?([A-Za-z0-9.]+)(?:\s|$)/.exec(source)?.[1]
  const byLine = interpreter === undefined ? undefined : INTERPRETERS[interpreter]
  if (byLine !== undefined) return byLine
  throw new UsageError(
    `The language of ${file === '-' ? 'standard input' : file} is unknown. Name it with --language ` +
      `${LANGUAGES.join('|')}.`,
  )
}

export function networkOf(text: string | undefined): Network {
  if (text === undefined || text === 'none') return 'none'
  if (text === 'public') return 'public'
  return { allow: listOf(text) }
}

/** The session from the flags. Undefined without a key. The contract's schema checks key and scope. */
function sessionOf(line: CommandLine): Record<string, unknown> | undefined {
  const key = textFlag(line, 'session')
  const scope = textFlag(line, 'session-scope')
  const must_exist = hasFlag(line, 'session-must-exist') ? true : undefined
  if (key === undefined && scope !== undefined) throw new UsageError('--session-scope needs --session KEY.')
  if (key === undefined && must_exist) throw new UsageError('--session-must-exist needs --session KEY.')
  return key === undefined ? undefined : withoutUndefined({ key, scope, must_exist })
}

/** Splits `NAME=VALUE` words. Throws `UsageError`. */
export function environmentOf(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    words.map((word) => {
      const cut = word.indexOf('=')
      if (cut <= 0) throw new UsageError(`--env expects NAME=VALUE, got ${JSON.stringify(word)}.`)
      return [word.slice(0, cut), word.slice(cut + 1)]
    }),
  )
}

/** Splits `PATH[=AS]`. A path outside of the current directory is stored under its last name. */
export function copyOf(word: string): { from: string; to: string } {
  const cut = word.lastIndexOf('=')
  if (cut > 0) return { from: word.slice(0, cut), to: word.slice(cut + 1) }
  const tidy = path.normalize(word)
  const outside = path.isAbsolute(tidy) || tidy.split(path.sep)[0] === '..'
  return { from: word, to: (outside ? path.basename(tidy) : tidy).split(path.sep).join('/') }
}

/** Reads the named files and builds the request. Throws `UsageError` and `invalid_request`. */
export async function buildRequest(
  line: CommandLine,
  from: { cwd: string; stdin: Readable },
): Promise<ExecutionRequest> {
  const file = line.words[0] ?? '-'
  const stdinFlag = textFlag(line, 'stdin')
  if (file === '-' && stdinFlag === '-')
    throw new UsageError(
      'Standard input cannot be both the program and its input. Save one of them to a file.',
    )
  const source = (file === '-' ? await readAll(from.stdin) : await readInput(from.cwd, file)).toString()
  const stdin =
    stdinFlag === undefined
      ? undefined
      : stdinFlag === '-'
        ? await readAll(from.stdin)
        : await readInput(from.cwd, stdinFlag)
  const language = languageOf(file, source, textFlag(line, 'language'))
  const program = {
    type: 'script',
    language,
    source,
    ...(line.rest.length === 0 ? {} : { argv: line.rest }),
  }
  return await requestOf(line, from.cwd, { program, stdin: stdin?.toString() })
}

/** Builds the request of a program from the flags. Throws `UsageError` and `invalid_request`. */
export async function requestOf(
  line: CommandLine,
  cwd: string,
  what: { program: object; stdin?: string | undefined; files?: FileIn[] },
): Promise<ExecutionRequest> {
  const named = await Promise.all(textFlags(line, 'file').map((word) => readFileIn(cwd, copyOf(word))))
  const files = [...(what.files ?? []), ...named]
  const limits = {
    // Like timeout(1). A program that still runs 5 s later is killed (limitsSchema).
    soft_timeout_ms: durationFlag(line, 'timeout'),
    cpu_time_ms: durationFlag(line, 'cpu-time'),
    heartbeat_timeout_ms: durationFlag(line, 'heartbeat'),
    memory_mib: numberFlag(line, 'memory', { min: 1, max: 1_000_000 }),
    cpus: numberFlag(line, 'cpus', { min: 0, max: 1024, whole: false }),
  }
  const request = withoutUndefined({
    idempotency_key: textFlag(line, 'idempotency-key'),
    tenant_id: textFlag(line, 'tenant') ?? 'demo',
    agent_id: textFlag(line, 'agent') ?? 'cli',
    program: what.program,
    stdin: what.stdin,
    files: files.length === 0 ? undefined : files,
    env: textFlags(line, 'env').length === 0 ? undefined : environmentOf(textFlags(line, 'env')),
    artifacts: textFlags(line, 'artifact').length === 0 ? undefined : textFlags(line, 'artifact'),
    limits: withoutUndefined(limits),
    session: sessionOf(line),
    preload: textFlag(line, 'preload'),
    network: networkOf(textFlag(line, 'network')),
    backend: textFlag(line, 'backend'),
    min_isolation: textFlag(line, 'min-isolation'),
    lane: textFlag(line, 'lane'),
    callback_url: textFlag(line, 'callback-url'),
    priority: numberFlag(line, 'priority', { min: 0, max: 9 }),
    delay_ms: durationFlag(line, 'delay'),
  })
  return parse(executionRequestSchema, request)
}

export async function readFileIn(cwd: string, { from, to }: { from: string; to: string }): Promise<FileIn> {
  const bytes = await readInput(cwd, from)
  return { path: to, content_base64: bytes.toString('base64') }
}

/** A file's bytes, up to the limit of a request. Throws `UsageError`. */
export async function readInput(cwd: string, name: string): Promise<Buffer> {
  try {
    const bytes = await readFile(path.resolve(cwd, name))
    if (bytes.length > BOUNDS.fileBytes)
      throw new UsageError(
        `${name} has ${bytes.length} bytes. A file may have at most ${BOUNDS.fileBytes} bytes.`,
      )
    return bytes
  } catch (error) {
    if (error instanceof UsageError) throw error
    const code = systemCode(error)
    const why =
      code === 'ENOENT' ? 'does not exist' : code === 'EISDIR' ? 'is a directory' : `cannot be read (${code})`
    throw new UsageError(`${name} ${why}.`)
  }
}

/** Reads a whole stream, up to the limit of a request, so that `yes |` does not fill the memory. */
async function readAll(stream: Readable): Promise<Buffer> {
  let size = 0
  stream.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size > BOUNDS.fileBytes)
      stream.destroy(
        new UsageError(`Standard input has more than ${BOUNDS.fileBytes} bytes, which is the limit.`),
      )
  })
  return await buffer(stream)
}
