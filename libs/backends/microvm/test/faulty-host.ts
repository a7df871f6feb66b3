/** What the host itself reports of the machines of one runtime folder, without the code under test. */
import { existsSync } from 'node:fs'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxSpec, WorkerId } from '@cofferdam/contract'
import { specOf } from './clones.ts'

const names = (folder: string): Promise<string[]> => readdir(folder).catch(() => [])

/** Pids of VMMs, by the files below the folder that they hold open. A zombie holds none. */
export async function machinesOf(runtimeDir: string): Promise<number[]> {
  const found: number[] = []
  for (const pid of (await names('/proc')).filter((name) => /^\d+$/.test(name))) {
    const held = await Promise.all(
      (await names(`/proc/${pid}/fd`)).map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')),
    )
    // The worker holds these files open for a moment, too, so only QEMU processes count.
    const program = await readlink(`/proc/${pid}/exe`).catch(() => '')
    if (/qemu-system/.test(program) && held.some((path) => path.startsWith(`${runtimeDir}/`)))
      found.push(Number(pid))
  }
  return found
}

/** Folders of templates, finished or not. */
export const templatesOf = (runtimeDir: string): Promise<string[]> =>
  names(join(runtimeDir, 'microvm/templates'))
export async function recordsOf(runtimeDir: string): Promise<string[]> {
  const top = join(runtimeDir, 'microvm/machines')
  const folders = (await names(top)).map(async (owner) =>
    (await names(join(top, owner))).map((id) => join(top, owner, id)),
  )
  return (await Promise.all(folders)).flat()
}

/** Cgroups of the machine, below those of this process or at the root of cgroup v2. */
export async function groupsOf(id: string): Promise<string[]> {
  const own = (await readFile('/proc/self/cgroup', 'utf8')).trim().split('\n')
  const parents = own.map((line) => {
    const [, controllers = '', ...path] = line.split(':')
    return join('/sys/fs/cgroup', controllers, path.join(':'))
  })
  return [...new Set(['/sys/fs/cgroup', ...parents])]
    .map((parent) => join(parent, 'cofferdam', id))
    .filter((folder) => existsSync(folder))
}

export const bashSpec = (
  owner: WorkerId,
  source: string,
  change: Partial<SandboxSpec> = {},
): SandboxSpec => ({ ...specOf(owner, 'bash', source), ...change })
