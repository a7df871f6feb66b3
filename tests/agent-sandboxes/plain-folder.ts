/**
 * Takes the steps of a random sequence in a folder of this machine, with bash and Node's own file system.
 * Their results are the expected ones.
 */
import { spawnSync } from 'node:child_process'
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { statSync, unlinkSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

export type Step =
  | { op: 'write'; path: string; content: string }
  | { op: 'read' | 'stat' | 'list' | 'remove'; path: string }
  | { op: 'run'; command: string; cwd?: string }

/** What a step returned, as plain data: `throws` for every rejection. */
export type Seen = unknown

export interface PlainFolder extends Disposable {
  take(step: Step): Seen
}

export function createPlainFolder(): PlainFolder {
  const root = mkdtempSync(path.join(os.tmpdir(), 'cofferdam-plain-'))
  const at = (name: string): string => path.join(root, name)
  return {
    take(step) {
      try {
        return act(step, at)
      } catch (error) {
        const { code = '' } = error as { code?: string }
        const isAbsent = step.op !== 'write' && (code === 'ENOENT' || code === 'ENOTDIR')
        return !isAbsent ? 'throws' : step.op === 'remove' ? false : null
      }
    },
    [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }),
  }
}

function act(step: Step, at: (name: string) => string): Seen {
  switch (step.op) {
    case 'write':
      mkdirSync(path.dirname(at(step.path)), { recursive: true })
      // A link is replaced, not followed.
      if (lstatSync(at(step.path), { throwIfNoEntry: false })?.isSymbolicLink() === true)
        unlinkSync(at(step.path))
      writeFileSync(at(step.path), step.content)
      return 'written'
    case 'read':
      return readFileSync(at(step.path), 'utf8')
    case 'stat': {
      const found = statSync(at(step.path))
      return found.isDirectory() ? 'directory' : { type: 'file', size: found.size }
    }
    case 'list':
      // A missing folder is no error, but a file in its place is.
      if (statSync(at(step.path)).isFile()) throw new Error('a file')
      return readdirSync(at(step.path), { withFileTypes: true })
        .map(
          (one) =>
            `${one.name} ${one.isSymbolicLink() ? 'symlink' : one.isDirectory() ? 'directory' : 'file'}`,
        )
        .toSorted()
    case 'remove':
      if (lstatSync(at(step.path)).isDirectory()) throw new Error('a folder')
      unlinkSync(at(step.path))
      return true
    case 'run': {
      const cwd = step.cwd === undefined ? at('.') : at(step.cwd)
      const line = `cd -- "$0" || exit 1; ${step.command}`
      const { status, stdout } = spawnSync('bash', ['-c', line, cwd], { cwd: at('.'), encoding: 'utf8' })
      return { exitCode: status, stdout }
    }
  }
}
