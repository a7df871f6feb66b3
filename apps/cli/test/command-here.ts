/**
 * Runs a command inside the test's process and returns its output and exit status. Tests of signals and pipes
 * need a real process (command-process.ts), which takes a second to start on a busy machine.
 */
import { Readable, Writable } from 'node:stream'
import { dispatch } from '../src/dispatch.ts'
import type { Ended, Place } from './command-process.ts'

// The output goes to a pipe, so the colours that the runner's terminal wants are switched off.
delete process.env['FORCE_COLOR']

/** Runs the command to its end, in the environment that its process would have. */
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
