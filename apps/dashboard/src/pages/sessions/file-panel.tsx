import type { Operations } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { callAddress, read } from '../../api/call.ts'
import { useResource } from '../../api/use-resource.ts'
import { Panel } from '../../parts/panel.tsx'
import { Empty } from '../../parts/problem.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { size } from '../../words/figures.ts'
import { plainText } from '../../words/plain.ts'
import { fileTree, type Folder } from './file-tree.ts'
import type { State } from './session-state.tsx'

const MORE: Record<State, string> = {
  idle: '',
  running: ', after what runs in it now',
  paused: ' and resumes it',
}

type Listing = Operations['listSessionFiles']['result']

/** The files of a session. Listing them is an execution of the session, so it is done only when asked. */
export function FilePanel(props: { path: string; tenantId: string; state: State }) {
  const [isAsked, setAsked] = useState(false)
  return (
    <Panel title="Files">
      {isAsked ? (
        <Files {...props} />
      ) : (
        <div class="ask">
          <p class="muted">Listing takes a turn in the session{MORE[props.state]}.</p>
          <button type="button" class="button" onClick={() => setAsked(true)}>
            List the files
          </button>
        </div>
      )}
    </Panel>
  )
}

function Files({ path, tenantId }: { path: string; tenantId: string }) {
  const files = useResource(`${tenantId} ${path}`, (signal) =>
    read<Listing>(`${path}/files`, { query: { tenant_id: tenantId }, signal }),
  )
  return (
    <ResourceView of={files} what="the files" lines={4}>
      {(data) =>
        'execution_id' in data ? (
          <p class="muted">It takes longer: the session is busy. Ask again when it is idle.</p>
        ) : data.files.length === 0 ? (
          <Empty title="It has no files." />
        ) : (
          <>
            <FolderView folder={fileTree(data.files)} path={path} tenantId={tenantId} />
            {data.truncated && <p class="muted small">There are more: only the first are listed.</p>}
          </>
        )
      }
    </ResourceView>
  )
}

function FolderView(props: { folder: Folder; path: string; tenantId: string }) {
  const { folder, path, tenantId } = props
  const addressOf = (file: string): string =>
    callAddress(`${path}/files/${file.split('/').map(encodeURIComponent).join('/')}`, { tenant_id: tenantId })
  return (
    <ul class="files">
      {folder.folders.map((one) => (
        <li key={one.name}>
          <details open>
            <summary>{plainText(one.name)}/</summary>
            <FolderView folder={one} path={path} tenantId={tenantId} />
          </details>
        </li>
      ))}
      {folder.files.map((file) => (
        <li key={file.name} class="file">
          <a href={addressOf(file.path)} download={file.name}>
            {plainText(file.name)}
          </a>
          <span class="muted number">{size(file.size)}</span>
        </li>
      ))}
    </ul>
  )
}
