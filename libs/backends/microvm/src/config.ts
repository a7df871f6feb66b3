/** Settings of the `microvm` backend. */
import { nameSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { firecrackerConfigSchema } from './firecracker/settings.ts'

export const microvmConfigSchema = z.strictObject({
  engine: z
    .enum(['qemu', 'firecracker'])
    .default('qemu')
    .describe(
      'What runs the machines: QEMU with its machine type `microvm`, or Firecracker behind its jailer. ' +
        'Firecracker needs hardware virtualisation and root; QEMU can also emulate.',
    ),
  accelerator: z
    .enum(['auto', 'kvm', 'tcg'])
    .default('auto')
    .describe(
      'For QEMU. `auto`: KVM if the host has hardware virtualisation, else emulation (`tcg`). `kvm` never ' +
        'emulates. Emulated machines are `microvm-emulated`, for tenants whose policy has `allow_emulation`.',
    ),
  qemu: z
    .string()
    .min(1)
    .max(4096)
    .default('qemu-system-x86_64')
    .describe('Path of QEMU, or its name on /usr/bin:/bin.'),
  image: z
    .enum(['slim', 'full'])
    .default('slim')
    .describe('Image of the machines. `full` has more tools and Python packages than `slim`.'),
  image_dir: z
    .string()
    .startsWith('/')
    .max(4096)
    .optional()
    .describe(
      'Folder with images, as `npm run image -- --microvm` makes them. Default: `.cache/microvm` of ' +
        'the checkout.',
    ),
  runtime_dir: z
    .string()
    .startsWith('/')
    .max(1024)
    .optional()
    .describe(
      'Folder for records and for the snapshots that machines are cloned from. A snapshot takes at most as ' +
        'much space as the memory of a machine. Only the user of the worker may write to the folder. ' +
        'Default: `cofferdam-<uid>` below the temporary folder; with Firecracker `state` below ' +
        '`chroot_base`.',
    ),
  uid: z
    .int()
    .min(1)
    .max(4_294_967_294)
    .default(1_899_999_999)
    .describe(
      'When the worker is root: the user of all machines of QEMU. Nothing else on this host may use it.',
    ),
  cgroup_parent: z
    .string()
    .startsWith('/sys/fs/cgroup/')
    .max(1024)
    .optional()
    .describe(
      'A delegated cgroup v2 folder, e.g. of a systemd unit with Delegate=yes. Default: the root group, or ' +
        'else the group of the worker itself.',
    ),
  ready_timeout_ms: z
    .int()
    .min(1000)
    .max(600_000)
    .default(60_000)
    .describe(
      'Longest time from the request for a sandbox to the guest agent’s first frame, without the time to ' +
        'make a snapshot.',
    ),
  host_group: nameSchema
    .optional()
    .describe(
      'Name of the workers that share `paused_dir`. Any of them can resume a session that another paused. ' +
        'Default: the host’s name.',
    ),
  paused_dir: z
    .string()
    .startsWith('/')
    .max(1024)
    .optional()
    .describe(
      'Folder of paused sessions, on a disk that survives a restart. It holds the memory of machines. ' +
        'Default: below `runtime_dir`.',
    ),
  paused_max_age_ms: z
    .int()
    .min(1000)
    .max(30 * 86_400_000)
    .default(86_400_000)
    .describe('A paused session ends after this time.'),
  paused_max_mib: z
    .int()
    .min(1)
    .max(2 ** 30)
    .default(16_384)
    .describe('Most disk that the paused sessions of the host group take together.'),
  paused_max_per_tenant: z
    .int()
    .min(1)
    .max(10_000)
    .default(32)
    .describe('Most paused sessions of one tenant in the host group.'),
  firecracker: firecrackerConfigSchema.prefault({}).describe('For the engine `firecracker`.'),
})
export type MicrovmConfig = z.output<typeof microvmConfigSchema>
