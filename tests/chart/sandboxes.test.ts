/** Checks the Helm chart of the kubernetes backend: its settings make its pods safe. */
import { needs } from '@cofferdam/embedded/needs'
import { beforeAll, expect, it } from 'vitest'
import { spareSettingsSchema } from '../../apps/dispatcher/src/scale/spare-settings.ts'
import { kubernetesConfigSchema } from '../../libs/backends/kubernetes/src/config.ts'
import { only, renderChart, SANDBOXES, type Rendered } from './render-chart.ts'

needs('helm').describe('the chart of the sandboxes', () => {
  let chart: Record<string, Rendered> = {}
  beforeAll(async () => {
    const objects = await renderChart({ chart: SANDBOXES, values: { namespace: 'cofferdam-sandboxes' } })
    chart = Object.fromEntries(objects.map((object) => [object.kind, object]))
    expect(Object.keys(chart)).toHaveLength(objects.length)
  })

  it('the pool that the backend claims from by default is the one that the chart makes', () => {
    const config = kubernetesConfigSchema.parse({})
    const { SandboxWarmPool, SandboxTemplate } = chart
    expect(SandboxTemplate).toMatchObject({ metadata: { name: 'cofferdam' } })
    expect(SandboxWarmPool).toMatchObject({
      metadata: { name: config.warm_pool, namespace: config.namespace },
      spec: { sandboxTemplateRef: { name: 'cofferdam' } },
    })
  })

  it("only the worker's pods can connect to a sandbox, on its agent's port, and nothing can leave", async () => {
    const { SandboxTemplate, NetworkPolicy } = chart
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
    // This policy has no rules, so even a pod without a policy of its own has no network.
    expect(NetworkPolicy?.['spec']).toEqual({ podSelector: {}, policyTypes: ['Ingress', 'Egress'] })
    const pod = JSON.stringify(SandboxTemplate?.['spec'])
    for (const way of ['hostNetwork', 'hostPort', 'hostPID', 'hostIPC', '"service"'])
      expect(pod).not.toContain(way)
    // In the fleet's chart, all workers have the namespace and the label that may connect to sandboxes.
    const fleet = await renderChart({ values: { sandboxes: { enabled: true } } })
    const worker = only(fleet, 'Deployment', 'cofferdam-worker-process')
    expect(worker.metadata).toMatchObject({ namespace: 'cofferdam' })
    expect(worker['spec'].template.metadata.labels).toMatchObject({ app: 'cofferdam-worker' })
    expect(only(fleet, 'SandboxTemplate', 'cofferdam')['spec'].networkPolicy).toEqual(
      SandboxTemplate?.['spec'].networkPolicy,
    )
  })

  it('pods of the template have no rights, write only to /tmp, and reach nothing', () => {
    const { SandboxTemplate, NetworkPolicy } = chart
    expect(SandboxTemplate).toMatchObject({
      spec: {
        envVarsInjectionPolicy: 'Disallowed',
        networkPolicyManagement: 'Managed',
        networkPolicy: {
          egress: [],
          ingress: [
            { ports: [{ port: kubernetesConfigSchema.parse({}).port }], from: [{ podSelector: {} }] },
          ],
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
    const [container] = SandboxTemplate?.['spec'].podTemplate.spec.containers ?? []
    expect(container?.command).toContain('/usr/lib/cofferdam/agent/pod.py')
    expect(NetworkPolicy).toMatchObject({ spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'] } })
  })

  it('the worker gets exactly the verbs that the backend uses, on claims and the pool', () => {
    const { Role } = chart
    expect(Role?.['rules']).toEqual([
      {
        apiGroups: ['extensions.agents.x-k8s.io'],
        resources: ['sandboxclaims'],
        verbs: ['create', 'get', 'list', 'watch', 'patch', 'delete'],
      },
      { apiGroups: ['extensions.agents.x-k8s.io'], resources: ['sandboxwarmpools'], verbs: ['get'] },
    ])
  })

  it('lets the dispatcher set the number of pods of one pool, and nothing else', async () => {
    const { namespace, warm_pool } = kubernetesConfigSchema.parse({})
    const scaled = await renderChart({
      chart: SANDBOXES,
      values: { namespace: 'cofferdam-sandboxes', scaledBy: 'dispatcher' },
    })
    const role = only(scaled, 'Role', 'cofferdam-spare-pods')
    expect(role.metadata.namespace).toBe(namespace)
    expect(role['rules']).toEqual([
      {
        apiGroups: ['extensions.agents.x-k8s.io'],
        resources: ['sandboxwarmpools/scale'],
        resourceNames: [warm_pool],
        verbs: ['get', 'patch'],
      },
    ])
    expect(only(scaled, 'RoleBinding', 'cofferdam-spare-pods')['subjects']).toEqual([
      { kind: 'ServiceAccount', name: 'cofferdam-dispatcher', namespace: 'cofferdam' },
    ])
  })

  it('lets KEDA and an HPA follow the dispatcher within its bounds, with the same behaviour', async () => {
    const { min, max } = spareSettingsSchema.parse({})
    const of = async (scaledBy: string, kind: string): Promise<Rendered> =>
      only(await renderChart({ chart: SANDBOXES, values: { scaledBy } }), kind, 'cofferdam-sandboxes')
    const { spec: keda } = await of('dispatcher-keda', 'ScaledObject')
    const { spec: hpa } = await of('dispatcher-hpa', 'HorizontalPodAutoscaler')
    expect([keda.minReplicaCount, keda.maxReplicaCount]).toEqual([min, max])
    expect([hpa.minReplicas, hpa.maxReplicas]).toEqual([min, max])
    expect(keda.advanced.horizontalPodAutoscalerConfig.behavior).toEqual(hpa.behavior)
    expect(keda.triggers[0].metadata.ignoreNullValues).toBe('false')
  })
})
