/** Settings of the `kubernetes` backend. */
import { z } from 'zod'

const name = z.string().regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, 'expected a Kubernetes name')
/** Where a pod finds what its service account may use (kubernetes.io/docs/tasks/run-application/access-api-from-pod). */
const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'

const foreignSchema = z.strictObject({
  /** Where the runtime keeps files: sandboxd's `--root-dir`, `/app` of the Python runtime. */
  root: z.string().startsWith('/').max(256).default('/workspace'),
  /** Python 3.8 or newer. */
  python: z.string().startsWith('/').max(256).default('/usr/local/bin/python3'),
  node: z.string().min(1).max(256).default('node'),
  /** Languages that the image has. */
  languages: z
    .array(z.enum(['python', 'javascript', 'typescript', 'bash']))
    .min(1)
    .default(['python', 'bash']),
  /** Bearer token that sandboxd asks for (1.0.7 and newer can). */
  token_file: z.string().startsWith('/').max(4096).nullable().default(null),
})

export const kubernetesConfigSchema = z.strictObject({
  /** The API server; for a worker outside of the cluster e.g. `http://127.0.0.1:8001` of `kubectl proxy`. */
  api_server: z.url({ protocol: /^https?$/ }).default('https://kubernetes.default.svc'),
  /** Read at every call, because such tokens are rotated. Null: no token (`kubectl proxy` adds its own). */
  token_file: z.string().startsWith('/').max(4096).nullable().default(`${ACCOUNT}/token`),
  /** Null: the system's certificates. Not used for http. */
  ca_file: z.string().startsWith('/').max(4096).nullable().default(`${ACCOUNT}/ca.crt`),
  namespace: name.default('cofferdam-sandboxes'),
  /** The SandboxWarmPool that claims name; its template must run our image with `pod.py` (infra/kubernetes). */
  warm_pool: name.default('cofferdam'),
  /** Of Agent Sandbox: v1beta1 since 0.5. */
  api_version: z
    .string()
    .regex(/^v[0-9][a-z0-9]*$/)
    .default('v1beta1'),
  /** What the template's image runs: ours with pod.py, or one of Agent Sandbox's runtimes, into which our agent is put. */
  runtime: z.enum(['cofferdam', 'sandboxd', 'python-runtime-sandbox']).default('cofferdam'),
  /** Of an image that is not ours. */
  foreign: foreignSchema.prefault({}),
  /**
   * With it sessions outlive their worker and any worker attaches to them: at least 32 bytes, the same for all workers. Keys of
   * sessions' pods are made with it. Null: a session ends with its worker.
   */
  session_secret_file: z.string().startsWith('/').max(4096).nullable().default(null),
  /** Where pod.py listens. */
  port: z.int().min(1).max(65_535).default(7071),
  /** What separates programs from the node, by the template's runtime class. */
  isolation: z.enum(['container', 'gvisor', 'microvm']).default('container'),
  /** Every call but the watch ends after this. */
  api_timeout_ms: z.int().min(1000).max(600_000).default(15_000),
  /** From the claim to the agent's first frame: a spare takes 0.05–0.15 s, a cold start on a new node minutes. */
  ready_timeout_ms: z.int().min(1000).max(600_000).default(60_000),
})
export type KubernetesConfig = z.output<typeof kubernetesConfigSchema>
