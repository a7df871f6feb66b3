import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { plainText } from '../words/plain.ts'

/** The heading of a page, which is also the title of the tab. */
export function PageHead(props: { title: string; children?: ComponentChildren }) {
  const title = plainText(props.title)
  useEffect(() => {
    document.title = `${title} · Cofferdam`
  }, [title])
  return (
    <header class="page-head">
      <h1>{title}</h1>
      {props.children !== undefined && <div class="page-actions">{props.children}</div>}
    </header>
  )
}
