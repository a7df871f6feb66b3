/** Which preload sets the jail's Python can import, by importing them once. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Python } from './interpreters.ts'

/** pandas takes 0.3 s, a cold disk ten times that. */
const IMPORT_MS = 30_000

export interface PreloadSets {
  /** Names of the sets that can be imported. */
  usable: string[]
  /** One line for each other set, with what is missing. */
  missing: string[]
}

/** Imports each set as a slot would: from the system's modules, not from a user's own folder. */
export async function findPreloadSets(
  python: Python,
  sets: Readonly<Record<string, readonly string[]>>,
  signal: AbortSignal,
): Promise<PreloadSets> {
  const tried = await Promise.all(
    Object.entries(sets).map(async ([name, modules]) => {
      const options = {
        signal: AbortSignal.any([signal, AbortSignal.timeout(IMPORT_MS)]),
        env: {},
        cwd: '/',
      }
      const source = modules.map((module) => `import ${module}`).join('\n')
      const said = await promisify(execFile)(python.executable, ['-s', '-c', source], options).then(
        () => null,
        (error: { stderr?: string; message: string }) =>
          lastLine(error.stderr ?? '') || lastLine(error.message),
      )
      return { name, said }
    }),
  )
  signal.throwIfAborted()
  return {
    usable: tried.filter(({ said }) => said === null).map(({ name }) => name),
    missing: tried.flatMap(({ name, said }) =>
      said === null ? [] : [`preload ${name} is not offered: ${said} (${python.executable})`],
    ),
  }
}

const lastLine = (text: string): string => text.trimEnd().split('\n').at(-1) ?? ''
