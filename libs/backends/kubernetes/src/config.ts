/** Settings of the `kubernetes` backend. */
import { z } from 'zod'
import { forgottenAfterSchema } from '@cofferdam/backend-remote'

const name = z.string().regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, 'expected a Kubernetes name')
/** A service account's files in a pod (kubernetes.io/docs/tasks/run-application/access-api-from-pod). */
const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'

const foreignSchema = z.strictObject({
  root: z
    .string()
    .startsWith('/')
    .max(256)
    .default('/workspace')
    .describe('Where the runtime keeps files: sandboxd’s `--root-dir`, `/app` of the Python runtime.'),
  python: z
    .string()
    .startsWith('/')
    .max(256)
    .default('/usr/local/bin/python3')
    .describe('Python 3.8 or newer in the image.'),
  node: z.string().min(1).max(256).default('node').describe('Node.js in the image.'),
  languages: z
    .array(z.enum(['python', 'javascript', 'typescript', 'bash']))
    .min(1)
    .default(['python', 'bash'])
    .describe('Languages that the image supports.'),
  token_file: z
    .string()
    .startsWith('/')
    .max(4096)
    .nullable()
    .default(null)
    .describe(
      'File with the bearer token for sandboxd, which checks it since version 1.0.7. Null: no token.',
    ),
})

export const kubernetesConfigSchema = z.strictObject({
  kubeconfig: z
    .string()
    .startsWith('/')
    .max(4096)
    .nullable()
    .default(null)
    .describe(
      'A kubeconfig file: its server, certificates, token or credential plugin are used instead of ' +
        '`api_server`, `token_file` and `ca_file`. Null: those three settings.',
    ),
  kubeconfig_context: z
    .string()
    .min(1)
    .max(253)
    .nullable()
    .default(null)
    .describe(
      'The context of `kubeconfig`. Null: its current context. Its namespace is not used; see `namespace`.',
    ),
  api_server: z
    .url({ protocol: /^https?$/ })
    .default('https://kubernetes.default.svc')
    .describe(
      'The API server. A worker outside of the cluster can use `http://127.0.0.1:8001` of `kubectl ' +
        'proxy`. A path in it is kept.',
    ),
  token_file: z
    .string()
    .startsWith('/')
    .max(4096)
    .nullable()
    .default(`${ACCOUNT}/token`)
    .describe(
      'File with the token for the API server, read at every call, because such tokens are rotated. ' +
        'Null: no token (`kubectl proxy` adds its own).',
    ),
  ca_file: z
    .string()
    .startsWith('/')
    .max(4096)
    .nullable()
    .default(`${ACCOUNT}/ca.crt`)
    .describe(
      'File with the certificate authority of the API server. Null: the system’s certificates. Not used ' +
        'for http.',
    ),
  namespace: name.default('cofferdam-sandboxes').describe('The namespace of claims, pods and the warm pool.'),
  warm_pool: name
    .default('cofferdam')
    .describe(
      'Name of the SandboxWarmPool that the worker claims pods from. Its template must run what `runtime` ' +
        'says (infra/kubernetes).',
    ),
  api_version: z
    .string()
    .regex(/^v[0-9][a-z0-9]*$/)
    .default('v1beta1')
    .describe('Version of Agent Sandbox’s API: v1beta1 since 0.5.'),
  runtime: z
    .enum(['cofferdam', 'sandboxd', 'python-runtime-sandbox'])
    .default('cofferdam')
    .describe(
      'What the template’s image runs: our guest agent with pod.py (cofferdam), or a runtime of Agent ' +
        'Sandbox, into which the worker uploads our guest agent.',
    ),
  foreign: foreignSchema.prefault({}).describe('Settings for an image that is not ours.'),
  session_secret_file: z
    .string()
    .startsWith('/')
    .max(4096)
    .nullable()
    .default(null)
    .describe(
      'File with the secret from which workers derive the key of each session’s pod: at least 32 bytes, ' +
        'the same for all workers. With it, sessions outlive their worker and any worker attaches to them. ' +
        'Null: a session ends with its worker.',
    ),
  forgotten_after_ms: forgottenAfterSchema.describe(
    'A session’s claim that no registry entry names is deleted after this time. Redis may have lost the ' +
      'entry.',
  ),
  port: z.int().min(1).max(65_535).default(7071).describe('Where pod.py listens.'),
  isolation: z
    .enum(['container', 'gvisor', 'microvm'])
    .default('container')
    .describe(
      'What separates programs from the node, by the template’s runtime class. The worker does not check ' +
        'it, because the name of a class proves nothing.',
    ),
  api_timeout_ms: z
    .int()
    .min(1000)
    .max(600_000)
    .default(15_000)
    .describe('Deadline of every call but the watch.'),
  ready_timeout_ms: z
    .int()
    .min(1000)
    .max(600_000)
    .default(60_000)
    .describe(
      'Longest time from the claim to the guest agent’s first frame. A warm pod takes 0.05 to 0.15 s. ' +
        'A cold start on a new node takes minutes.',
    ),
})
export type KubernetesConfig = z.output<typeof kubernetesConfigSchema>
