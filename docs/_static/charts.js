// Draw the charts of a page, whose definitions stand in it as JSON.
for (const place of document.querySelectorAll(".evenhand-chart")) {
  const definition = JSON.parse(place.querySelector("script").textContent);
  // In the letters of the page.
  definition.config = { ...definition.config, font: getComputedStyle(document.body).fontFamily };
  const drawing = document.createElement("div");
  place.append(drawing);
  vegaEmbed(drawing, definition, { actions: false, renderer: "svg" }).catch((error) => {
    place.append(`This chart could not be drawn: ${error.message}`);
  });
}
