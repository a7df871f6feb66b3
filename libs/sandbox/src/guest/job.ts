/** Encodes a program for the wire: J, its files as F, and G, for one write. */
import { BOUNDS, CofferdamError, pathSchema, type Program, type ProgramFile } from '@cofferdam/contract'
import { encodeFrame, TO_AGENT_MAX } from './protocol.ts'

/** A longer shell text is sent as a file: Linux accepts at most 128 KiB per argument (MAX_ARG_STRLEN). */
const SHELL_ARG_MAX = 120 * 1024
const CHUNK = TO_AGENT_MAX - 4

/** Entry names by language. A waiting interpreter expects the first. */
const ENTRIES = {
  python: ['main.py', 'program.py'],
  javascript: ['main.js', 'program.js'],
  typescript: ['main.ts', 'program.ts'],
  bash: ['main.sh', 'program.sh'],
} as const

/**
 * File of a script that runs in a kept shell. The session's files stay, and one of them could be `main.sh`,
 * so the name is our own. The file is removed when the script ends.
 */
const PRIVATE_SCRIPT = '.cofferdam-main.sh'

export interface JobOptions {
  files: readonly ProgramFile[]
  env: Record<string, string>
  stdinBytes: number | null
  maxOutputBytes: { stdout: number; stderr: number }
  /** Run in the interpreter of the session, and keep it for the next run. */
  keepInterpreter?: boolean
  /** Kill no other process at the program's end, because the session keeps them. */
  keepProcesses?: boolean
  /** Port for the program's connections, also in its environment. Null: it may not connect. */
  proxyPort?: number | null
  /** The program may report progress: it gets a module or a command for that. */
  report?: boolean
}

/**
 * Throws `capability_missing` for tests, install and files, `payload_too_large` beyond the bounds of files or
 * of J (1 MiB), and `invalid_request` for a path outside the work directory.
 */
export function encodeRun(program: Program, options: JobOptions): Buffer[] {
  const { fields, file } = describe(program, options)
  const files = file === null ? options.files : [...options.files, file]
  const port = options.proxyPort ?? null
  return encodeJob(
    {
      op: 'run',
      ...fields,
      env: port === null ? options.env : { ...proxyEnv(port), ...options.env },
      ...(port === null ? {} : { connect: port }),
      stdin: options.stdinBytes,
      ...(options.keepInterpreter === true && program.type === 'script' ? { keep: true } : {}),
      ...(options.keepProcesses === true ? { leave: true } : {}),
      ...(options.report === true ? { report: true } : {}),
      caps: { out: options.maxOutputBytes.stdout, err: options.maxOutputBytes.stderr },
    },
    files,
  )
}

/**
 * Variables that make programs use the proxy on their loopback. Each name is set in lower and upper case,
 * because tools differ: curl reads only `http_proxy` in lower case. Node reads them only at its start, so a
 * waiting Node must have been started with them.
 */
export function proxyEnv(port: number): Record<string, string> {
  const proxy = `http://127.0.0.1:${port}`
  const direct = 'localhost,127.0.0.1,::1'
  return {
    http_proxy: proxy,
    https_proxy: proxy,
    all_proxy: proxy,
    no_proxy: direct,
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
    ALL_PROXY: proxy,
    NO_PROXY: direct,
    NODE_USE_ENV_PROXY: '1',
  }
}

/** Only files, no program. */
export const encodePut = (files: readonly ProgramFile[]): Buffer[] => encodeJob({ op: 'put' }, files)

function describe(
  program: Program,
  { files, keepInterpreter, keepProcesses }: JobOptions,
): { fields: Record<string, unknown>; file: ProgramFile | null } {
  switch (program.type) {
    case 'script': {
      const isPrivate = program.language === 'bash' && keepInterpreter === true && keepProcesses === true
      const entry = isPrivate ? PRIVATE_SCRIPT : freeName(ENTRIES[program.language], files)
      return {
        fields: { kind: 'script', language: program.language, entry, argv: program.argv ?? [] },
        file: { path: entry, bytes: Buffer.from(program.source) },
      }
    }
    case 'command': {
      if (program.argv !== undefined) return { fields: { kind: 'argv', argv: program.argv }, file: null }
      const text = program.shell ?? ''
      if (Buffer.byteLength(text) <= SHELL_ARG_MAX) return { fields: { kind: 'shell', text }, file: null }
      const entry = freeName(['command.sh'], files)
      return { fields: { kind: 'shell', entry }, file: { path: entry, bytes: Buffer.from(text) } }
    }
    case 'tests':
    case 'install':
    case 'files':
      throw new CofferdamError('capability_missing', `the guest agent does not run ${program.type} programs`)
  }
}

/** A name that no provided file has, so that a caller's own main.py stays as it is and can be imported. */
function freeName(names: readonly string[], files: readonly ProgramFile[]): string {
  const taken = new Set(files.map((f) => f.path.split('/')[0]))
  const free = names.find((name) => !taken.has(name))
  if (free !== undefined) return free
  const [stem, ending] = (names[0] ?? 'main').split('.')
  for (let n = 1; ; n++) if (!taken.has(`${stem}_${n}.${ending}`)) return `${stem}_${n}.${ending}`
}

function encodeJob(fields: Record<string, unknown>, files: readonly ProgramFile[]): Buffer[] {
  let total = 0
  for (const file of files) {
    if (!pathSchema.safeParse(file.path).success)
      throw new CofferdamError('invalid_request', `not a path inside the work directory: ${file.path}`)
    total += file.bytes.length
  }
  // The source is one more file of at most 1 MiB.
  if (total > BOUNDS.filesTotalBytes + BOUNDS.sourceBytes || files.length > BOUNDS.fileCount + 1)
    throw new CofferdamError('payload_too_large', `files of ${total} bytes in ${files.length} files`)
  const declared = files.map((f) => ({ path: f.path, size: f.bytes.length, exec: f.executable === true }))
  const job = Buffer.from(JSON.stringify({ ...fields, files: declared }))
  if (job.length > TO_AGENT_MAX)
    throw new CofferdamError(
      'payload_too_large',
      'arguments, environment and file names exceed 1 MiB together',
    )
  const frames = [encodeFrame('J', job)]
  files.forEach((file, index) => {
    for (let at = 0; at < file.bytes.length; at += CHUNK) {
      const chunk = file.bytes.subarray(at, at + CHUNK)
      const payload = Buffer.allocUnsafe(4 + chunk.length)
      payload.writeUInt32LE(index, 0)
      payload.set(chunk, 4)
      frames.push(encodeFrame('F', payload))
    }
  })
  frames.push(encodeFrame('G'))
  return frames
}

/**
 * The frames of the program's input and of its end, small enough that other frames can go in between. No
 * frames without input.
 */
export function encodeStdin(stdin: Uint8Array | undefined): Buffer[] {
  if (stdin === undefined) return []
  const frames: Buffer[] = []
  for (let at = 0; at < stdin.length; at += 256 * 1024)
    frames.push(encodeFrame('I', stdin.subarray(at, at + 256 * 1024)))
  return [...frames, encodeFrame('I')]
}
