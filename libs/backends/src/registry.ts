/**
 * Every backend by name. A new backend is one package and one line here. Its config schema (only zod) is
 * imported now, its code when it is configured, so that a worker with containers never loads a cloud SDK.
 */
import { agentcoreConfigSchema } from '@cofferdam/backend-agentcore/config'
import { azureConfigSchema } from '@cofferdam/backend-azure/config'
import { dockerConfigSchema, gvisorConfigSchema } from '@cofferdam/sandbox/docker/config'
import { e2bConfigSchema } from '@cofferdam/backend-e2b/config'
import { fakeConfigSchema } from '@cofferdam/sandbox/fake/config'
import { hostileConfigSchema } from '@cofferdam/sandbox/hostile/config'
import { kubernetesConfigSchema } from '@cofferdam/backend-kubernetes/config'
import { microvmConfigSchema } from '@cofferdam/backend-microvm/config'
import { noneConfigSchema } from '@cofferdam/sandbox/none/config'
import { processConfigSchema } from '@cofferdam/sandbox/process/config'
import type { AgentcoreDeps } from '@cofferdam/backend-agentcore'
import type { AzureDeps } from '@cofferdam/backend-azure'
import type { Backend } from '@cofferdam/contract'
import type { z } from 'zod'

/** Dependencies of backends: the common ones, and those that single vendors add. */
export type BackendDeps = AgentcoreDeps & AzureDeps

interface Registration<Schema extends z.ZodType = z.ZodType> {
  /** One sentence for people: what separates a program from the host in this backend. */
  isolation: string
  /** The backend's own strict schema. `{}` must be valid if the backend needs no settings. */
  config: Schema
  /** Imports and creates the backend. Parses `config` again, so that callers need no type for it. */
  create(config: unknown, deps: BackendDeps, name: string): Promise<Backend>
}

/**
 * Makes one entry of the registry. `load` imports the package, whose `createBackend` gets the registry's key
 * as the backend's name.
 */
function register<Schema extends z.ZodType>(line: {
  isolation: string
  config: Schema
  load: () => Promise<{
    createBackend(config: z.output<Schema>, deps: BackendDeps, name: string): Backend | Promise<Backend>
  }>
}): Registration<Schema> {
  return {
    isolation: line.isolation,
    config: line.config,
    create: async (config, deps, name) => {
      const parsed = line.config.parse(config)
      const backend = await line.load()
      return backend.createBackend(parsed, deps, name)
    },
  }
}

export const BACKENDS = {
  docker: register({
    isolation:
      'A hardened container of the Docker daemon: namespaces, cgroups, seccomp, no capability, no network.',
    config: dockerConfigSchema,
    load: () => import('@cofferdam/sandbox/docker'),
  }),
  gvisor: register({
    isolation:
      'The container of `docker` on gVisor (runsc): programs talk to a user-space kernel, not to the host’s.',
    config: gvisorConfigSchema,
    load: () => import('@cofferdam/sandbox/docker'),
  }),
  process: register({
    isolation:
      'A jail on this host without a daemon: bubblewrap, else Landlock and seccomp. The worker tries each ' +
      'before it relies on it.',
    config: processConfigSchema,
    load: () => import('@cofferdam/sandbox/process'),
  }),
  none: register({
    isolation:
      'No isolation: a plain process of this host with a clean environment, for tenants whose policy ' +
      'allows it.',
    config: noneConfigSchema,
    load: () => import('@cofferdam/sandbox/none'),
  }),
  agentcore: register({
    isolation:
      'A session of Amazon Bedrock AgentCore Code Interpreter: a microVM at the vendor. Its mode without ' +
      'network still reaches S3.',
    config: agentcoreConfigSchema,
    load: () => import('@cofferdam/backend-agentcore'),
  }),
  e2b: register({
    isolation: 'A Firecracker microVM at E2B; the vendor’s machines, not yours.',
    config: e2bConfigSchema,
    load: () => import('@cofferdam/backend-e2b'),
  }),
  kubernetes: register({
    isolation: 'A pod of Agent Sandbox, claimed from a warm pool; as strong as its runtime class.',
    config: kubernetesConfigSchema,
    load: () => import('@cofferdam/backend-kubernetes'),
  }),
  microvm: register({
    isolation:
      'A virtual machine on this host, a clone of a snapshot; without hardware virtualisation only emulated.',
    config: microvmConfigSchema,
    load: () => import('@cofferdam/backend-microvm'),
  }),
  azure: register({
    isolation: 'A dynamic session of Azure Container Apps, in a Hyper-V machine of its own at the vendor.',
    config: azureConfigSchema,
    load: () => import('@cofferdam/backend-azure'),
  }),
  fake: register({
    isolation:
      'No isolation: a scripted double in this process, which runs no code. For tests and benches of the ' +
      'queue.',
    config: fakeConfigSchema,
    load: () => import('@cofferdam/sandbox/fake'),
  }),
  hostile: register({
    isolation:
      'No isolation: a double that is late, lies and dies on purpose. For tests of the code that uses ' +
      'backends.',
    config: hostileConfigSchema,
    load: () => import('@cofferdam/sandbox/hostile'),
  }),
} as const

export type BackendName = keyof typeof BACKENDS

export const isBackendName = (name: string): name is BackendName => Object.hasOwn(BACKENDS, name)
