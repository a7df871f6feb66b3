const WIDTH = 120
const HEIGHT = 22

/** A line of the latest values of a figure. The scale goes from 0 to the highest value and is not shown. */
export function Sparkline({ values, words }: { values: readonly number[]; words: string }) {
  if (values.length < 2)
    return <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true" />
  const most = Math.max(...values, 1)
  const step = WIDTH / (values.length - 1)
  const points = values.map((value, index) => {
    const y = HEIGHT - 1 - (value / most) * (HEIGHT - 2)
    return `${(index * step).toFixed(1)},${y.toFixed(1)}`
  })
  return (
    <svg
      class="sparkline"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${words}: at most ${most}`}
    >
      <polyline points={points.join(' ')} vector-effect="non-scaling-stroke" />
    </svg>
  )
}
