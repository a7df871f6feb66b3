import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

/** A part of a page with a heading. `aside` stands at the right of the heading. */
export function Panel(props: {
  title: string
  aside?: ComponentChildren
  children: ComponentChildren
  class?: string
}) {
  const id = useId()
  return (
    <section class={`panel ${props.class ?? ''}`} aria-labelledby={id}>
      <header class="panel-head">
        <h2 id={id}>{props.title}</h2>
        {props.aside !== undefined && <div class="panel-aside">{props.aside}</div>}
      </header>
      <div class="panel-body">{props.children}</div>
    </section>
  )
}

/** Names and values. A value of null or undefined is left out. */
export function Facts({ of }: { of: ReadonlyArray<readonly [string, ComponentChildren]> }) {
  const shown = of.filter(([, value]) => value !== null && value !== undefined)
  return (
    <dl class="facts">
      {shown.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}
