/** Settings of the `process` backend. */
import { z } from 'zod'

/** What both host backends take. */
export const hostSettings = {
  /** Folder for guest files and sandbox records, of this user alone. Default: cofferdam-<uid> below the temporary folder. */
  runtime_dir: z.string().startsWith('/').max(1024).optional(),
  /** Python 3.8 or newer; default: /usr/bin/python3, else the first on PATH. */
  python: z.string().min(1).max(4096).optional(),
  /** Node that runs JavaScript and TypeScript, 24 or newer; default: the worker's own. */
  node: z.string().startsWith('/').max(4096).optional(),
  /** When the worker is root: the one uid and gid that all programs run as. Default: each sandbox has one of `uid_range`. */
  uid: z.int().min(1).max(4_294_967_294).optional(),
  gid: z.int().min(1).max(4_294_967_294).optional(),
  /** When the worker is root: uids (and gids) of sandboxes, one for each; nothing else on this host may use them. */
  uid_range: z
    .strictObject({ first: z.int().min(1000).max(4_294_900_000), count: z.int().min(16).max(1_000_000) })
    .optional(),
  /** Limit by cgroups where they can be made. */
  cgroups: z.boolean().default(true),
  /** A delegated cgroup v2 folder, e.g. of a systemd unit with Delegate=yes; default: tried where this process is. */
  cgroup_parent: z.string().startsWith('/sys/fs/cgroup/').max(1024).optional(),
  /** From `open` to the agent's first frame. Takes 20-40 ms on an idle machine. */
  ready_timeout_ms: z.int().min(1000).max(600_000).default(20_000),
}

export const processConfigSchema = z.strictObject({
  ...hostSettings,
  /**
   * Which rung of the ladder: `auto` is bwrap, else self; `plain` is no fence at all (isolation `process`) and is never
   * chosen by itself.
   */
  jail: z.enum(['auto', 'bwrap', 'self', 'plain']).default('auto'),
  /** Whether the self-jail also uses namespaces where the host gives them; false leaves Landlock and seccomp alone. */
  namespaces: z.boolean().default(true),
  /** Path of bubblewrap; default: /usr/bin/bwrap, else the first on PATH. */
  bwrap: z.string().min(1).max(4096).optional(),
})
export type ProcessConfig = z.output<typeof processConfigSchema>
