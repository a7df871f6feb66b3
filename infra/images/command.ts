/** Runs host commands. An error contains the command line and the end of its output. */
import { spawn } from 'node:child_process'

// The end of a build tool's output contains the reason; 8 KiB are enough.
const TAIL_BYTES = 8192

export interface RunOptions {
  cwd?: string
  env?: NodeJS.ProcessEnv
  signal?: AbortSignal
}

/** Resolves with stdout. Rejects with the command line and the end of its output after a failure. */
export async function run(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<string> {
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  let stdout = ''
  let tail = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
    tail = (tail + text).slice(-TAIL_BYTES)
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    tail = (tail + text).slice(-TAIL_BYTES)
  })
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const line = [command, ...args].join(' ').slice(0, 200)
  child.on('error', (cause) => reject(new Error(`cannot run "${line}": ${cause.message}`, { cause })))
  child.on('close', (code, signal) => {
    if (code === 0) resolve(stdout)
    else reject(new Error(`"${line}" ended with ${signal ?? code}: ${tail.trim()}`))
  })
  return promise
}

/** Whether the command can be started. */
export async function exists(command: string): Promise<boolean> {
  return run(command, ['--version']).then(
    () => true,
    (error: unknown) => !(error instanceof Error && error.message.startsWith('cannot run')),
  )
}
