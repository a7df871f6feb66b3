/** jail.py's report on fd 3: the agent's pid, and whether its file tree has a /proc. */
import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { z } from 'zod'

/** `proc` is true for a jail without its own file tree, which does not report it. */
export interface JailReport {
  pid: number
  proc: boolean
}

const lineSchema = z.union([
  z.strictObject({ pid: z.int().positive() }),
  z.strictObject({ proc: z.boolean() }),
])

/**
 * Reads the report of a new jail. `pid` resolves before the jail is complete. A jail with a tree sends its
 * two lines in any order. If the jail ends too early, the promises that are still open reject.
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
  // This needs no bound: jail.py writes at most two short lines, and closes the descriptor before any program
  // runs.
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
