import type { Artifact, ExecutionResult } from '@cofferdam/client'
import { CopyButton } from '../../../parts/copy-button.tsx'
import { Panel } from '../../../parts/panel.tsx'
import { counted, size } from '../../../words/figures.ts'
import { plainText } from '../../../words/plain.ts'
import { ArtifactPreview, canBePreviewed } from './artifact-preview.tsx'

/** Previews that open by themselves. Each loads its file. */
const OPEN_AT_FIRST = 4

/** The API path of an artifact. A program chose the names in it, so they are encoded. */
const addressOf = (id: string, path: string): string =>
  `/v1/executions/${id}/artifacts/${path.split('/').map(encodeURIComponent).join('/')}`

/** The files that came back. Each is a download. Images, tables and texts are also shown. */
export function ArtifactPanel({ result }: { result: ExecutionResult }) {
  const { artifacts, artifacts_omitted: omitted = [], artifacts_incomplete: incomplete = false } = result
  if (artifacts.length === 0 && omitted.length === 0 && !incomplete) return null
  let opened = 0
  return (
    <Panel
      title="Artifacts"
      class="flush"
      aside={<span class="muted">{counted(artifacts.length, 'file')}</span>}
    >
      <ul class="artifacts">
        {artifacts.map((artifact) => {
          const opens = canBePreviewed(artifact) && opened < OPEN_AT_FIRST
          if (opens) opened += 1
          return (
            <ArtifactItem
              key={artifact.path}
              artifact={artifact}
              address={addressOf(result.execution_id, artifact.path)}
              opens={opens}
            />
          )
        })}
        {omitted.map(({ path, size: bytes, reason }) => (
          <li key={path} class="artifact omitted">
            <span class="artifact-name">{plainText(path)}</span>
            <span class="muted number">{size(bytes)}</span>
            <span class="tone-warn">left out: {reason.replaceAll('_', ' ')}</span>
          </li>
        ))}
      </ul>
      {incomplete && <p class="output-notes">Collecting ended early: more files may have matched.</p>}
    </Panel>
  )
}

function ArtifactItem(props: { artifact: Artifact; address: string; opens: boolean }) {
  const { artifact, address } = props
  const name = artifact.path.split('/').at(-1) ?? 'artifact'
  return (
    <li class="artifact">
      <a class="artifact-name" href={address} download={name}>
        {plainText(artifact.path)}
      </a>
      <span class="muted number">{size(artifact.size)}</span>
      <CopyButton text={artifact.sha256} label={`Copy the SHA-256 of ${artifact.path}`} />
      {canBePreviewed(artifact) && (
        <ArtifactPreview path={artifact.path} address={address} opens={props.opens} />
      )}
    </li>
  )
}
