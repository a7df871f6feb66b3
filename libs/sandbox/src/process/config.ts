/** Settings of the `process` backend. */
import { z } from 'zod'

/** Settings of both host backends, process and none. */
export const hostSettings = {
  runtime_dir: z
    .string()
    .startsWith('/')
    .max(1024)
    .optional()
    .describe(
      'Folder for files of the guest agent and records of sandboxes. Only the user of the worker may write ' +
        'to it. Default: `cofferdam-<uid>` below the temporary folder.',
    ),
  python: z
    .string()
    .min(1)
    .max(4096)
    .optional()
    .describe('Python 3.8 or newer; default: /usr/bin/python3, else the first on PATH.'),
  node: z
    .string()
    .startsWith('/')
    .max(4096)
    .optional()
    .describe('Node that runs JavaScript and TypeScript, 24 or newer; default: the worker’s own.'),
  uid: z
    .int()
    .min(1)
    .max(4_294_967_294)
    .optional()
    .describe(
      'When the worker is root: the uid that all programs run as. Default: each sandbox has its own uid, ' +
        'from `uid_range`.',
    ),
  gid: z
    .int()
    .min(1)
    .max(4_294_967_294)
    .optional()
    .describe('The gid of all programs if `uid` is set. Default: 65534.'),
  uid_range: z
    .strictObject({
      first: z.int().min(1000).max(4_294_900_000).describe('The first uid.'),
      count: z.int().min(16).max(1_000_000).describe('Number of uids, and so the most sandboxes at once.'),
    })
    .optional()
    .describe(
      'When the worker is root: the range of uids and gids for sandboxes, one for each. Nothing else on ' +
        'this host may use them. Default: 1900000000 to 1900065535.',
    ),
  cgroups: z
    .boolean()
    .default(true)
    .describe('Whether cgroups limit programs, if the worker may create cgroups.'),
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
    .default(20_000)
    .describe(
      'Longest time from the request for a sandbox to the guest agent’s first frame. It takes 20-40 ms on ' +
        'an idle machine.',
    ),
}

export const processConfigSchema = z.strictObject({
  ...hostSettings,
  jail: z
    .enum(['auto', 'bwrap', 'self', 'plain'])
    .default('auto')
    .describe(
      'How programs are jailed. `bwrap`: by bubblewrap. `self`: by Landlock and seccomp. `auto`: the ' +
        'first of these two that works. `plain`: not at all (isolation `process`); `auto` never chooses it.',
    ),
  namespaces: z
    .boolean()
    .default(true)
    .describe(
      'Whether the self-jail also uses namespaces, if the host allows them. False: only Landlock and ' +
        'seccomp.',
    ),
  bwrap: z
    .string()
    .min(1)
    .max(4096)
    .optional()
    .describe('Path of bubblewrap; default: /usr/bin/bwrap, else the first on PATH.'),
})
export type ProcessConfig = z.output<typeof processConfigSchema>
