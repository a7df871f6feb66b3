/** What jail.py tells on fd 3: the agent's pid for us, and whether its file tree has a /proc. */
import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { z } from 'zod'

/** `proc` is true of a jail without a file tree of its own: it has nothing to tell of that. */
export interface JailReport {
  pid: number
  proc: boolean
}

const lineSchema = z.union([
  z.strictObject({ pid: z.int().positive() }),
  z.strictObject({ proc: z.boolean() }),
])

/**
 * Reads it from a jail that has just been started. The pid is known before the jail stands; the two lines of
 * a jail with a tree come in either order. Both reject when it ends before.
 */
export function readReport(
  child: ChildProcess,
  hasTree: boolean,
): { pid: Promise<number>; whole: Promise<JailReport> } {
  const info = child.stdio[3] as Readable
  const [pid, proc] = [Promise.withResolvers<number>(), Promise.withResolvers<boolean>()]
  if (!hasTree) proc.resolve(true)
  const failed = (error: Error): void => {
    pid.reject(error)
    proc.reject(error)
  }
  // Two short lines, and the descriptor is closed before anything of a program runs.
  const read = createInterface({ input: info })
  read.on('line', (line) => {
    const parsed = lineSchema.safeParse(parsedJson(line))
    if (!parsed.success) failed(new Error('the jail reported nonsense'))
    else if ('pid' in parsed.data) pid.resolve(parsed.data.pid)
    else proc.resolve(parsed.data.proc)
  })
  read.on('close', () => failed(new Error('the jail ended before it stood')))
  info.on('error', failed)
  child.on('error', failed)
  const whole = Promise.all([pid.promise, proc.promise]).then(([agent, has]) => ({ pid: agent, proc: has }))
  return { pid: pid.promise, whole }
}

function parsedJson(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}
