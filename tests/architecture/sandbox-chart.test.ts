/** Checks the Helm chart of the kubernetes backend: it renders, and its settings make its pods safe. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { kubernetesConfigSchema } from '../../libs/backends/kubernetes/src/config.ts'
import { checkSpec } from '@cofferdam/backend-kubernetes/double'
import { expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'

const CHART = join(import.meta.dirname, '../../infra/kubernetes/sandboxes')
const NAMESPACE = 'cofferdam-sandboxes'

/** Renders the chart, which uses nothing of Helm except plain values. */
function rendered(): Record<string, Record<string, unknown>> {
  const values = parse(readFileSync(join(CHART, 'values.yaml'), 'utf8')) as Record<string, unknown>
  const found: Record<string, Record<string, unknown>> = {}
  for (const file of globSync('templates/*.yaml', { cwd: CHART })) {
    const text = readFileSync(join(CHART, file), 'utf8').replace(
      /\{\{ \.([\w.]+) \}\}/g,
      (_, path: string) => {
        if (path === 'Release.Namespace') return NAMESPACE
        const value = path
          .split('.')
          .slice(1)
          .reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], values)
        if (value === undefined) throw new Error(`${file}: ${path} is not in values.yaml`)
        return JSON.stringify(value)
      },
    )
    expect(text, file).not.toContain('{{')
    for (const document of parseAllDocuments(text)) {
      expect(document.errors, file).toEqual([])
      const object = document.toJS() as Record<string, unknown>
      expect(found, 'kinds so far').not.toHaveProperty(String(object['kind']))
      found[String(object['kind'])] = object
    }
  }
  return found
}

test('the pool that the backend claims from by default is the one that the chart makes', () => {
  const config = kubernetesConfigSchema.parse({})
  const { SandboxWarmPool, SandboxTemplate } = rendered()
  expect(SandboxTemplate).toMatchObject({ metadata: { name: 'cofferdam' } })
  expect(SandboxWarmPool).toMatchObject({
    metadata: { name: config.warm_pool, namespace: config.namespace },
    spec: { sandboxTemplateRef: { name: 'cofferdam' } },
  })
})

test("the chart's objects match Agent Sandbox's schemas", () => {
  const { SandboxTemplate, SandboxWarmPool } = rendered()
  for (const object of [SandboxTemplate, SandboxWarmPool])
    expect(checkSpec(String(object?.['kind']), object?.['spec'])).toMatchObject({ causes: [], unknown: [] })
})

test("only the worker's pods can connect to a sandbox, on its agent's port, and nothing can leave", () => {
  const { SandboxTemplate, NetworkPolicy } = rendered()
  // Session keys and all of a program's input and output cross the pod network in clear on this port.
  const { port } = kubernetesConfigSchema.parse({})
  expect(SandboxTemplate).toHaveProperty('spec.networkPolicy', {
    ingress: [
      {
        from: [
          {
            namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'cofferdam' } },
            podSelector: { matchLabels: { app: 'cofferdam-worker' } },
          },
        ],
        ports: [{ protocol: 'TCP', port }],
      },
    ],
    egress: [],
  })
  // No rule at all, so that also a pod without a policy of its own has no network.
  expect(NetworkPolicy?.['spec']).toEqual({ podSelector: {}, policyTypes: ['Ingress', 'Egress'] })
  const pod = JSON.stringify(SandboxTemplate?.['spec'])
  for (const way of ['hostNetwork', 'hostPort', 'hostPID', 'hostIPC', '"service"'])
    expect(pod).not.toContain(way)
  const worker = parseAllDocuments(readFileSync(join(CHART, '../worker.yaml'), 'utf8'))[0]?.toJS() as {
    metadata: object
    spec: { template: { metadata: object } }
  }
  expect(worker.metadata).toMatchObject({ namespace: 'cofferdam' })
  expect(worker.spec.template.metadata).toMatchObject({ labels: { app: 'cofferdam-worker' } })
})

test('pods of the template have no rights, write only to /tmp, and reach nothing', () => {
  const { SandboxTemplate, NetworkPolicy } = rendered()
  expect(SandboxTemplate).toMatchObject({
    spec: {
      envVarsInjectionPolicy: 'Disallowed',
      networkPolicyManagement: 'Managed',
      networkPolicy: {
        egress: [],
        ingress: [{ ports: [{ port: kubernetesConfigSchema.parse({}).port }], from: [{ podSelector: {} }] }],
      },
      podTemplate: {
        spec: {
          runtimeClassName: 'gvisor',
          restartPolicy: 'Never',
          automountServiceAccountToken: false,
          securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
          containers: [
            {
              securityContext: {
                allowPrivilegeEscalation: false,
                readOnlyRootFilesystem: true,
                capabilities: { drop: ['ALL'] },
              },
              volumeMounts: [{ mountPath: '/tmp' }],
            },
          ],
        },
      },
    },
  })
  const [container] = (
    SandboxTemplate as { spec: { podTemplate: { spec: { containers: { command: string[] }[] } } } }
  ).spec.podTemplate.spec.containers
  expect(container?.command).toContain('/usr/lib/cofferdam/agent/pod.py')
  expect(NetworkPolicy).toMatchObject({ spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'] } })
})

test('the worker gets exactly the verbs that the backend uses, on claims and the pool', () => {
  const { Role } = rendered()
  expect(Role?.['rules']).toEqual([
    {
      apiGroups: ['extensions.agents.x-k8s.io'],
      resources: ['sandboxclaims'],
      verbs: ['create', 'get', 'list', 'watch', 'patch', 'delete'],
    },
    { apiGroups: ['extensions.agents.x-k8s.io'], resources: ['sandboxwarmpools'], verbs: ['get'] },
  ])
})
