/**
 * Runs a command as its process does, but in the test's own: for what it says and how it ends. Signals, pipes
 * and whatever outlives a command need a real one (command-process.ts), whose start costs a second of a busy
 * machine.
 */
import { Readable, Writable } from 'node:stream'
import { dispatch } from '../src/dispatch.ts'
import type { Ended, Place } from './command-process.ts'

// Where the runner's own terminal wants colours, a command in a pipe has none all the same.
delete process.env['FORCE_COLOR']

/** Runs it to its end, in the environment that a process of it would have. */
export async function runHere(args: readonly string[], place: Place, input = ''): Promise<Ended> {
  const said = { stdout: '', stderr: '' }
  const into = (name: 'stdout' | 'stderr') =>
    new Writable({
      decodeStrings: false,
      write(text: string | Buffer, _encoding, done) {
        said[name] += String(text)
        done()
      },
    })
  const status = await dispatch({
    args,
    environment: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...place.env },
    cwd: place.cwd,
    stdin: Readable.from([Buffer.from(input)]),
    stdout: into('stdout'),
    stderr: into('stderr'),
    stop: new AbortController().signal,
  })
  return { status, signal: null, ...said }
}
