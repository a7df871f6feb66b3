/** Adds what the package of a command needs besides its modules. */
import { copyFile, cp, glob, mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { buildDashboard } from '../build-dashboard.mjs'
import { DASHBOARD } from '../dashboard-stamp.mjs'
import type { Manifest, Published } from './published.ts'

/**
 * Adds the command's own file and the pages that its API serves. Returns the fields of package.json that only
 * the command has: every declared dependency of the `reached` workspaces (some are only resolved, not
 * imported), and the pinned Node from `nodes`.
 */
export async function addCommand(
  root: string,
  dist: string,
  command: NonNullable<Published['command']>,
  reached: readonly (Manifest | undefined)[],
  nodes: Record<string, string>,
): Promise<object> {
  for (const file of [command.file, ...command.needs]) {
    await mkdir(path.dirname(path.join(dist, file)), { recursive: true })
    await copyFile(path.join(root, file), path.join(dist, file))
  }
  const pages = path.join(DASHBOARD, 'dist')
  if ((await buildDashboard(root)) !== 'none')
    await cp(path.join(root, pages), path.join(dist, pages), { recursive: true })
  const declared = reached.flatMap((one) => Object.entries(one?.dependencies ?? {}))
  const foreign = declared.filter(([name]) => !name.startsWith('@cofferdam/'))
  const optional = reached.flatMap((one) => Object.entries(one?.optionalDependencies ?? {}))
  return {
    bin: { [command.name]: `./${path.posix.join('dist', command.file)}` },
    dependencies: Object.fromEntries(foreign.toSorted(([a], [b]) => (a < b ? -1 : 1))),
    optionalDependencies: { ...nodes, ...Object.fromEntries(optional) },
  }
}

/** Writes the version into the package.json files from which programs read their own version. */
export async function stampVersion(dist: string, version: string): Promise<void> {
  for await (const name of glob('apps/*/package.json', { cwd: dist })) {
    const manifest = JSON.parse(await readFile(path.join(dist, name), 'utf8')) as Manifest
    await writeFile(path.join(dist, name), JSON.stringify({ ...manifest, version }))
  }
}
