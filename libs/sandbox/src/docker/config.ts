/** Settings of the `docker` and `gvisor` backends. */
import { z } from 'zod'

const settings = {
  transport: z
    .enum(['auto', 'attach', 'socket'])
    .default('auto')
    .describe(
      'How worker and sandbox exchange frames. `socket`: over a unix socket in a folder that daemon and worker share. `attach`: over the daemon’s attach stream. `auto`: by socket if the first sandbox proves that it works, else by attach.',
    ),
  runtime_dir: z
    .string()
    .startsWith('/')
    .max(64)
    .optional()
    .describe(
      'Folder for the sockets, owned by the worker’s user with mode 0700. Its path has at most 64 ' +
        'characters. Default: `cofd-<uid>` below the temporary folder.',
    ),
  host: z
    .string()
    .min(1)
    .max(4096)
    .optional()
    .describe(
      'Path of the daemon’s unix socket, or a `tcp://`, `http://` or `https://` URL. Default: /var/run/docker.sock.',
    ),
  image: z
    .string()
    .min(1)
    .max(512)
    .default('cofferdam/sandbox:latest')
    .describe(
      'Image with python3, node, bash and our guest agent. `npm run image` makes the default. `npm run ' +
        'image -- --full` makes `cofferdam/sandbox:full`, which has more tools and Python packages.',
    ),
  api_timeout_ms: z
    .int()
    .min(1000)
    .max(600_000)
    .default(30_000)
    .describe('Time-out of each call of the daemon’s API, except for long-lived streams.'),
  ready_timeout_ms: z
    .int()
    .min(1000)
    .max(600_000)
    .default(20_000)
    .describe(
      'Longest time from the request for a sandbox to the guest agent’s first frame. A cold start takes ' +
        '0.15-0.4 s, on a loaded host ten times that.',
    ),
}

export const dockerConfigSchema = z.strictObject({
  ...settings,
  runtime: z
    .string()
    .min(1)
    .max(128)
    .nullable()
    .default(null)
    .describe(
      'OCI runtime as the daemon knows it (`docker info`), e.g. runc, crun, runsc, kata, io.containerd.kata.v2. Null: crun if the daemon has it and does not use AppArmor, else the daemon’s default.',
    ),
})

export const gvisorConfigSchema = z.strictObject({
  ...settings,
  runtime: z
    .string()
    .min(1)
    .max(128)
    .default('runsc')
    .describe('OCI runtime as the daemon knows it (`docker info`).'),
})

export type DockerConfig = z.output<typeof dockerConfigSchema>
