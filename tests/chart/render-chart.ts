/** Renders the chart of the fleet with the real Helm. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { parseAllDocuments } from 'yaml'
import { findHelm } from '../../scripts/helm.ts'

const run = promisify(execFile)

export const CHART = join(import.meta.dirname, '../../infra/kubernetes/cofferdam')
export const SANDBOXES = join(CHART, 'charts/sandboxes')
export const NAMESPACE = 'cofferdam'

/** An object as Helm prints it. Tests read its fields without types. */
export interface Rendered {
  apiVersion: string
  kind: string
  metadata: {
    name: string
    namespace?: string
    labels?: Record<string, string>
    annotations?: Record<string, string>
  }
  // oxlint-disable-next-line typescript/no-explicit-any
  [field: string]: any
}

export interface RenderOptions {
  /** Files of values beside the chart's own, relative to the chart. */
  files?: readonly string[]
  /** Values that replace those of the files. */
  values?: object
  chart?: string
  release?: string
}

/** The objects of the chart. Rejects with what Helm said. */
export async function renderChart(options: RenderOptions = {}): Promise<Rendered[]> {
  const { files = [], values = {}, chart = CHART, release = 'cofferdam' } = options
  const args = ['template', release, chart, '--namespace', NAMESPACE, '--kube-version', '1.35']
  const named = files.flatMap((file) => ['--values', join(chart, file)])
  const helm = run((await findHelm()) ?? 'helm', [...args, ...named, '--values', '-'], {
    maxBuffer: 16 * 1024 * 1024,
  })
  helm.child.stdin?.end(JSON.stringify(values))
  const { stdout } = await helm
  return parseAllDocuments(stdout).flatMap((document) => {
    if (document.errors.length > 0) throw document.errors[0]
    const object = document.toJS() as Rendered | null
    return object === null ? [] : [object]
  })
}

/** The one object of that kind and name. */
export function only(objects: readonly Rendered[], kind: string, name: string): Rendered {
  const found = objects.filter((object) => object.kind === kind && object.metadata.name === name)
  if (found.length !== 1) throw new Error(`${found.length} objects are ${kind} ${name}`)
  return found[0] as Rendered
}
