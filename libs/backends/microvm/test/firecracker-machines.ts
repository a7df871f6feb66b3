/**
 * The backend on `cofferdam double firecracker --machines`: each machine is one of QEMU behind the double.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import type { microvmConfigSchema } from '../src/config.ts'
import { leftBelow, removeGroups } from './firecracker-host.ts'

const CLI = fileURLToPath(new URL('../../../../apps/cli/src/main.ts', import.meta.url))
const saidSchema = z.object({
  firecracker: z.string(),
  jailer: z.string(),
  image_dir: z.string(),
  chroot_base: z.string(),
  record: z.string(),
})

export interface FirecrackerMachines extends AsyncDisposable {
  /** The configuration of a backend. */
  config: z.input<typeof microvmConfigSchema>
  chrootBase: string
  /** Whatever is left of machines: jails, users, groups, processes. */
  left(): string[]
  /** Calls of the API, in their order. */
  calls(): string[]
}

/** Starts the command. Rejects if the command ends before it has printed its settings. */
export async function firecrackerMachines(): Promise<FirecrackerMachines> {
  // The name is short, because the paths of Unix sockets below it have a length limit.
  const folder = mkdtempSync('/tmp/fc-')
  chmodSync(folder, 0o755)
  const words = [CLI, 'double', 'firecracker', '--dir', folder, '--machines', '--json']
  const double = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(double, 'exit')
  const first = await createInterface({ input: double.stdout })[Symbol.asyncIterator]().next()
  const said = saidSchema.parse(JSON.parse(String(first.value ?? '{}')))
  const { firecracker, jailer, image_dir, chroot_base } = said
  const parentCgroup = `cofferdam-test-${folder.slice('/tmp/fc-'.length)}`
  return {
    config: {
      engine: 'firecracker',
      image_dir,
      ready_timeout_ms: 170_000,
      firecracker: {
        double: true,
        firecracker,
        jailer,
        chroot_base,
        first_uid: 1_903_000_000,
        parent_cgroup: parentCgroup,
      },
    },
    chrootBase: chroot_base,
    left: () => leftBelow(chroot_base, parentCgroup),
    calls: () =>
      readFileSync(said.record, 'utf8')
        .split('\n')
        .flatMap((line) => (line === '' ? [] : [(JSON.parse(line) as { call: string }).call])),
    async [Symbol.asyncDispose]() {
      double.kill('SIGTERM')
      await ended
      await removeGroups(parentCgroup)
      await rm(folder, { recursive: true })
    },
  }
}
