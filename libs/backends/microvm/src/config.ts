/** Settings of the `microvm` backend. */
import { z } from 'zod'

export const microvmConfigSchema = z.strictObject({
  engine: z
    .enum(['qemu'])
    .default('qemu')
    .describe('What runs the machines: QEMU’s machine type `microvm`, on KVM where that is hardware.'),
  accelerator: z
    .enum(['auto', 'kvm', 'tcg'])
    .default('auto')
    .describe(
      '`auto`: KVM where the host has hardware below it, else emulation (`tcg`). `kvm` refuses to emulate. ' +
        'Emulated machines are `microvm-emulated`, for tenants whose policy has `allow_emulation`.',
    ),
  qemu: z
    .string()
    .min(1)
    .max(4096)
    .default('qemu-system-x86_64')
    .describe('Path of QEMU, or its name on /usr/bin:/bin.'),
  image: z.enum(['slim', 'full']).default('slim').describe('Which of the two images.'),
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
      'Folder for templates (up to the memory of a machine each) and records, of this user alone. Default: ' +
        '`cofferdam-<uid>` below the temporary folder.',
    ),
  uid: z
    .int()
    .min(1)
    .max(4_294_967_294)
    .default(1_899_999_999)
    .describe('When the worker is root: the user of all machines. Nothing else on this host may use it.'),
  cgroup_parent: z
    .string()
    .startsWith('/sys/fs/cgroup/')
    .max(1024)
    .optional()
    .describe(
      'A delegated cgroup v2 folder, e.g. of a systemd unit with Delegate=yes; default: tried where this ' +
        'process is.',
    ),
  ready_timeout_ms: z
    .int()
    .min(1000)
    .max(600_000)
    .default(60_000)
    .describe('From `open` to the agent’s first frame, without the making of a template.'),
})
export type MicrovmConfig = z.output<typeof microvmConfigSchema>
