/** Builds the pages for a test, as the image and the bootstrap do. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export interface BuiltPages extends AsyncDisposable {
  /** Has index.html and assets/. */
  dist: string
}

/**
 * Builds into a folder of its own, so that files of tests do not wait for each other. In a process of its own,
 * because vitest's NODE_ENV would make another build than the one that people get.
 */
export async function buildPages(): Promise<BuiltPages> {
  const dist = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-pages-'))
  await promisify(execFile)(
    process.execPath,
    [path.join(ROOT, 'node_modules/vite/bin/vite.js'), 'build', '--outDir', dist, '--logLevel', 'error'],
    { cwd: path.join(ROOT, 'apps/dashboard'), env: { ...process.env, NODE_ENV: 'production' } },
  )
  return { dist, [Symbol.asyncDispose]: () => rm(dist, { recursive: true, force: true }) }
}
