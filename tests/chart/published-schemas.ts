/**
 * Checks objects against the schemas that Kubernetes, KEDA, the Prometheus Operator and External Secrets
 * publish, as found in the packages `kubernetes-models`. The compiler refuses unknown fields and wrong types.
 * The packages' validators refuse wrong formats and numbers.
 */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { checkSpec } from '@cofferdam/backend-kubernetes/double'
import type { Rendered } from './render-chart.ts'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '../..')

/** Packages by the end of an API group. Kubernetes' own groups have no dot or end with k8s.io. */
const PACKAGES: readonly [group: RegExp, from: string][] = [
  [/^keda\.sh$/, '@kubernetes-models/keda/'],
  [/^monitoring\.coreos\.com$/, '@kubernetes-models/prometheus-operator/'],
  [/^external-secrets\.io$/, '@kubernetes-models/external-secrets/'],
  [/^[^.]*$|\.k8s\.io$/, 'kubernetes-models/'],
]
/** Kinds of Google's own controllers, of which no current package has schemas. */
const OF_GOOGLE = /^(cloud\.google\.com|networking\.gke\.io)\//
const OF_AGENT_SANDBOX = /^extensions\.agents\.x-k8s\.io\//

/** The module of an object's kind. */
function moduleOf({ apiVersion, kind }: Rendered): string {
  const group = apiVersion.includes('/') ? (apiVersion.split('/')[0] ?? '') : ''
  const found = PACKAGES.find(([groups]) => groups.test(group))
  if (found === undefined) throw new Error(`no schemas are known for ${apiVersion} ${kind}`)
  return `${found[1]}${apiVersion}/${kind}`
}

interface Validated {
  validate(): void
}

/** Problems of the objects, each with the title under which they came. */
export async function schemaProblems(
  titled: readonly (readonly [title: string, object: Rendered])[],
): Promise<string[]> {
  // Flavours share most objects, so each distinct object is checked once.
  const known = [...new Map(titled.map((one) => [JSON.stringify(one[1]), one])).values()].filter(
    ([, { apiVersion }]) => !OF_GOOGLE.test(apiVersion),
  )
  const ours = known.filter(([, { apiVersion }]) => OF_AGENT_SANDBOX.test(apiVersion))
  const published = known.filter(([, { apiVersion }]) => !OF_AGENT_SANDBOX.test(apiVersion))
  const invalid = await Promise.all(
    published.map(async ([title, object]) => {
      try {
        const models = (await import(moduleOf(object))) as Record<string, new (data: object) => Validated>
        const Model = models[object.kind]
        if (Model === undefined) throw new Error(`${object.apiVersion} has no such kind`)
        new Model(object).validate()
        return []
      } catch (error) {
        return [`${title}: ${object.kind} ${object.metadata.name}: ${String(error)}`]
      }
    }),
  )
  return [...invalid.flat(), ...ours.flatMap(sandboxProblems), ...(await typeProblems(published, ours))]
}

/** Agent Sandbox's own fields, with the schemas that the double enforces. */
function sandboxProblems([title, { kind, spec }]: readonly [string, Rendered]): string[] {
  const { causes, unknown } = checkSpec(kind, spec)
  return [...causes.map(({ field, message }) => `${field}: ${message}`), ...unknown].map(
    (problem) => `${title}: ${kind}: ${problem}`,
  )
}

/**
 * Compiler errors for each object, written as a literal of its type. TypeScript refuses unknown fields only
 * in literals.
 */
async function typeProblems(
  published: readonly (readonly [string, Rendered])[],
  ours: readonly (readonly [string, Rendered])[],
): Promise<string[]> {
  const literals = [
    ...published.map(([title, object]) => ({ title, from: moduleOf(object), type: object.kind, object })),
    // The pod of a SandboxTemplate has the type of any Kubernetes pod.
    ...ours.flatMap(([title, { spec }]) =>
      spec.podTemplate === undefined
        ? []
        : [
            {
              title,
              from: 'kubernetes-models/v1/PodSpec',
              type: 'PodSpec',
              object: spec.podTemplate.spec as object,
            },
          ],
    ),
  ]
  const lines = literals.map(
    ({ from, type, object }, index) =>
      `export const object${index}: import('${from}').I${type} = ${JSON.stringify(object)}`,
  )
  await mkdir(join(ROOT, '.cache'), { recursive: true })
  // Below the root, so that the packages are found.
  const folder = await mkdtemp(join(ROOT, '.cache/chart-types-'))
  try {
    await writeFile(join(folder, 'objects.ts'), lines.join('\n'))
    const flags =
      '--ignoreConfig --noEmit --strict --skipLibCheck --module nodenext --target esnext --types --pretty false'
    await run(join(ROOT, 'node_modules/.bin/tsc'), [...flags.split(' '), 'objects.ts'], { cwd: folder })
    return []
  } catch (error) {
    const told = (error as { stdout?: string }).stdout ?? String(error)
    return told
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        const [, number] = /^objects\.ts\((\d+),/.exec(line) ?? []
        const literal = literals[Number(number) - 1]
        return literal === undefined ? line : `${literal.title}: ${literal.type}: ${line}`
      })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
