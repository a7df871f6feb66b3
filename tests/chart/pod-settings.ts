/** What the process of a pod gets: its variables and its configuration file. */
import { only, type Rendered } from './render-chart.ts'

/** Keys of the Secret that pods name, with values that the processes accept. */
export const SECRETS: Readonly<Record<string, string>> = {
  REDIS_URL: 'redis://127.0.0.1',
  REDIS_URL_1: 'redis://:pw@127.0.0.1:6381',
  REDIS_URL_2: 'redis+cluster://127.0.0.1:7000,127.0.0.1:7001',
  COFFERDAM_ADMISSION_REDIS_URL: 'redis://127.0.0.1:6390',
  DATABASE_URL: 'postgres://127.0.0.1/cofferdam',
  COFFERDAM_OUTPUT_KEYS: `k1:${Buffer.alloc(32).toString('base64')}`,
}

interface Variable {
  name: string
  value?: string
  valueFrom?: { secretKeyRef: { key: string } }
}

/**
 * The container's variables as Kubernetes makes them: from the Secret, and with `$(NAME)` replaced by the
 * variable of that name if it is listed earlier.
 */
export function environment(container: Rendered): Record<string, string> {
  const found: Record<string, string> = {}
  for (const { name, value, valueFrom } of container['env'] as Variable[]) {
    const text = value ?? SECRETS[valueFrom?.secretKeyRef.key ?? '']
    if (text === undefined) throw new Error(`${name} comes from no key of the Secret`)
    found[name] = text.replaceAll(/\$\((\w+)\)/g, (whole, other: string) => found[other] ?? whole)
  }
  return found
}

/** The text of the pod's configuration file; undefined without one. */
export function configText(objects: readonly Rendered[], pod: Rendered): string | undefined {
  const volume = pod['volumes'].find(({ name }: { name: string }) => name === 'config')
  return volume && only(objects, 'ConfigMap', volume.configMap.name)['data']['cofferdam.config.yaml']
}
