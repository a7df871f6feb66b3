/** What the engine is told about a host. */
import { z } from 'zod'

const absolute = z.string().startsWith('/').max(255)

export const firecrackerConfigSchema = z.strictObject({
  firecracker: absolute
    .default('/usr/local/bin/firecracker')
    .describe('The static binary of Firecracker, 1.16.1 or newer, owned by root.'),
  jailer: absolute.default('/usr/local/bin/jailer').describe('The jailer of the same release.'),
  chroot_base: absolute
    .default('/srv/fc')
    .describe(
      'Folder of the jails, on the file system of the images. Only root may write to it. Its path has at ' +
        'most 24 bytes.',
    ),
  first_uid: z
    .int()
    .min(65_536)
    .max(2_147_000_000)
    .default(1_901_000_000)
    .describe('First uid of the range for machines. Each machine runs with a uid of its own.'),
  uids: z
    .int()
    .min(8)
    .max(65_536)
    .default(4096)
    .describe('Number of uids in the range, and so the most machines at once.'),
  parent_cgroup: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._/-]{0,100}$/)
    .refine((path) => !path.split('/').includes('..'), 'must not lead upward')
    .default('cofferdam-fc')
    .describe('Group of cgroup v2 below which each machine gets its own.'),
  double: z
    .boolean()
    .default(false)
    .describe(
      'True: `firecracker` and `jailer` are those of `cofferdam double firecracker`. They isolate nothing, ' +
        'so machines are `microvm-emulated`.',
    ),
})
export type FirecrackerConfig = z.output<typeof firecrackerConfigSchema>

export interface FirecrackerSettings {
  firecracker: string
  jailer: string
  chrootBase: string
  uids: { first: number; count: number }
  parentCgroup: string
}

export const settingsOf = (config: FirecrackerConfig): FirecrackerSettings => ({
  firecracker: config.firecracker,
  jailer: config.jailer,
  chrootBase: config.chroot_base.replace(/\/+$/, ''),
  uids: { first: config.first_uid, count: config.uids },
  parentCgroup: config.parent_cgroup,
})
