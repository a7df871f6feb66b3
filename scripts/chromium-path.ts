/** Finds a Chromium on this machine that can run without a window. */
import { accessSync, constants } from 'node:fs'
import path from 'node:path'

/** Names of the program, the smallest first. */
const NAMES = ['chromium-headless-shell', 'chromium', 'google-chrome']

const isProgram = (file: string): boolean => {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** The program that COFFERDAM_CHROMIUM names, or the first one on PATH. Null when there is none. */
export function chromiumPath(env: NodeJS.ProcessEnv = process.env): string | null {
  const named = env['COFFERDAM_CHROMIUM'] ?? ''
  if (named !== '') return named
  const folders = (env['PATH'] ?? '').split(path.delimiter).filter((folder) => folder !== '')
  const files = NAMES.flatMap((name) => folders.map((folder) => path.join(folder, name)))
  return files.find(isProgram) ?? null
}
