import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'

/** The heading of a page, which is also the title of the tab. */
export function PageHead(props: { title: string; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${props.title} · Cofferdam`
  }, [props.title])
  return (
    <header class="page-head">
      <h1>{props.title}</h1>
      {props.children !== undefined && <div class="page-actions">{props.children}</div>}
    </header>
  )
}
