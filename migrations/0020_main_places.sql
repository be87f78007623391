-- Schema 20: whose file holds something else is not where a recording is shown, while another place
-- of it is only gone.
-- docs/catalog-reference.md says what every column means.

-- As in 0001, but that of the places that are left, where none is present, the one that went last of
-- those that vanished comes before one that is replaced.
DROP TRIGGER place_gone;
CREATE TRIGGER place_gone AFTER UPDATE OF state ON place
WHEN new.state <> 'present' AND old.state <> new.state BEGIN
    UPDATE media SET
        place_id = iif(place_id <> new.place_id, place_id,
            ifnull((SELECT p.place_id FROM place p
                    WHERE p.media_id = new.media_id AND (p.state = 'present'
                        OR (p.state = 'vanished' AND new.state = 'replaced'))
                    ORDER BY p.state = 'present' DESC, p.gone_at DESC, p.place_id LIMIT 1),
                   place_id)),
        places = places - (old.state = 'present')
    WHERE media_id = new.media_id;
    UPDATE catalog_total SET places = places - (old.state = 'present'),
        vanished = vanished + (new.state = 'vanished') - (old.state = 'vanished');
END;

UPDATE media SET place_id = p.place_id
FROM (SELECT media_id AS of_media, place_id, row_number() OVER
          (PARTITION BY media_id ORDER BY gone_at DESC, place_id) AS nr
      FROM place WHERE state = 'vanished') AS p
WHERE places = 0 AND media_id = p.of_media AND p.nr = 1
  AND (SELECT state FROM place o WHERE o.place_id = media.place_id) = 'replaced';
